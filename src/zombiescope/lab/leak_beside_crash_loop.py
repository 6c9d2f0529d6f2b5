"""Trap: a crash-looping unit leaks nothing; a healthy one beside it leaks through its containers."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._leaking import leaking
from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._systemd import TO_BOOT
from zombiescope.lab._units import ENDS, SUPERVISOR, restarted, supervise

TRUTH = Truth(
    chain=("cgroup_churn", "zombie_cgroups"),
    subject=r"family:/zslab-.*/zslab-supervisor\.service/<id>",
    harmless=("crash_looping_unit",),
    silent=("cpu_throttling", "direct_reclaim", "driver_reset", "realtime_hog"),
)
NEEDS = TO_BOOT
SECONDS = 12.0
PAUSE = 0.1  # seconds between two starts of either: counts alone cannot distinguish them


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    pause = PAUSE / max(scale, 0.01)
    units = {"zslab-false.service": restarted(ENDS, pause), "zslab-supervisor.service": SUPERVISOR}
    with leaking(units, files=supervise(pause), label="beside") as systemd:
        yield Fault(
            subject=f"family:/{systemd.name}/system.slice/zslab-supervisor.service/<id>",
            says="zslab-false.service crash-loops and leaks nothing; zslab-supervisor.service is healthy and leaks",
        )
