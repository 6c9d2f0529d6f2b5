"""An agent that nobody uses crash-loops under a real systemd, and each run leaves one dying cgroup."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._leaking import leaking
from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._systemd import TO_BOOT
from zombiescope.lab._units import LEAKS, restarted

TRUTH = Truth(
    chain=("crash_looping_unit", "zombie_cgroups"),
    subject="unit:ecs.service",
    silent=("cpu_throttling", "direct_reclaim", "driver_reset", "realtime_hog"),
)
NEEDS = TO_BOOT
SECONDS = 12.0
SHORT = True
PAUSE = 0.05  # seconds between two runs: about ten restarts a second


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    units = {"ecs.service": restarted(LEAKS, PAUSE)}
    with leaking(units, label="crash-loop", scale=scale):
        yield Fault(subject="unit:ecs.service", says="ecs.service fails at every start and is restarted forever")
