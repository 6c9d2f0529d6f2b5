"""A service that exits at once crash-loops under a real systemd, and leaves nothing behind."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._systemd import TO_BOOT, asked_by_diagnosis, booted
from zombiescope.lab._units import ENDS, restarted

TRUTH = Truth(
    chain=("crash_looping_unit",),
    subject="unit:zslab-false.service",
    silent=("zombie_cgroups", "cpu_throttling", "direct_reclaim", "driver_reset"),
)
NEEDS = TO_BOOT
SECONDS = 10.0


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    units = {"zslab-false.service": restarted(ENDS, 0.05 / max(scale, 0.01))}
    with booted(units, label="harmless") as systemd, asked_by_diagnosis(systemd):
        yield Fault(
            subject="unit:zslab-false.service", says="zslab-false.service runs /bin/false and is restarted forever"
        )
