"""Trap: a compiler keeps both cores busy with thousands of processes; the culprit beside it uses hardly any CPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._leaking import leaking
from zombiescope.lab._loads import compiling
from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._systemd import TO_BOOT
from zombiescope.lab._units import LEAKS, restarted

TRUTH = Truth(
    chain=("crash_looping_unit", "zombie_cgroups"),
    subject="unit:ecs.service",
    silent=(
        *("cpu_throttling", "realtime_hog", "fork_storm", "page_fault_storm", "saturated_core"),
        *("defunct_processes", "blocked_tasks", "direct_reclaim", "driver_reset"),
    ),
)
NEEDS = (*TO_BOOT, "gcc")
SECONDS = 15.0  # systemd has to wait for a core too
PAUSE = 0.3  # seconds between two runs: about three a second


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    with leaking({"ecs.service": restarted(LEAKS, PAUSE)}, label="quiet"), compiling(scale):
        yield Fault(
            subject="unit:ecs.service", says="ecs.service crash-loops and leaks beside a compiler at full speed"
        )
