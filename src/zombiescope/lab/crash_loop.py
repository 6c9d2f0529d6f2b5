"""An agent that nobody uses crash-loops under a real systemd, and each run leaves one dying cgroup."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._systemd import LEAKING, asked_by_diagnosis, booted
from zombiescope.lab._zombies import leaked

TRUTH = Truth(
    root="crash_looping_unit",
    subject="unit:ecs.service",
    chain=("crash_looping_unit", "zombie_cgroups"),
    silent=("cpu_throttling", "direct_reclaim", "driver_reset", "realtime_hog"),
)
NEEDS = ("root", "systemd", "unshare")
SECONDS = 12.0
SHORT = True
ALREADY = 1_000  # dying cgroups when it begins: an incident is diagnosed after days, not in its first minute
PAUSE = 0.05  # seconds between two runs: about ten restarts a second


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    units = {"ecs.service": LEAKING.format(pause=PAUSE)}
    with (
        leaked(round(ALREADY * max(scale, 1.0)), label="already"),
        booted(units, label="crash-loop") as systemd,
        asked_by_diagnosis(systemd),
    ):
        yield Fault(subject="unit:ecs.service", says="ecs.service fails at every start and is restarted forever")
