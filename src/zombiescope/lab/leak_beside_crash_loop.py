"""Trap: a crash-looping unit leaks nothing; a healthy one beside it leaks through its containers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._systemd import asked_by_diagnosis, booted
from zombiescope.lab._units import ENDING, SUPERVISOR, supervise
from zombiescope.lab._zombies import leaked

TRUTH = Truth(
    root="cgroup_churn",
    subject=r"family:/zslab-.*/zslab-supervisor\.service/<id>",
    chain=("cgroup_churn", "zombie_cgroups"),
    harmless=("crash_looping_unit",),
    silent=("cpu_throttling", "direct_reclaim", "driver_reset", "realtime_hog"),
)
NEEDS = ("root", "systemd", "unshare")
SECONDS = 12.0
ALREADY = 1_000  # dying cgroups when it begins
PAUSE = 0.1  # seconds between two starts of either: counts alone cannot distinguish them


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    pause = PAUSE / max(scale, 0.01)
    units = {"zslab-false.service": ENDING.format(pause=pause), "zslab-supervisor.service": SUPERVISOR}
    with (
        leaked(ALREADY, label="already"),
        booted(units, files=supervise(pause), label="beside") as systemd,
        asked_by_diagnosis(systemd),
    ):
        yield Fault(
            subject=f"family:/{systemd.name}/system.slice/zslab-supervisor.service/<id>",
            says="zslab-false.service crash-loops and leaks nothing; zslab-supervisor.service is healthy and leaks",
        )
