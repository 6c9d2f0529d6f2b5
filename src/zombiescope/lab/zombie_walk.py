"""A process reads statistics like kubelet; each read walks thousands of dying cgroups and saturates its core."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._walker import walking
from zombiescope.lab._zombies import leaked, memory_folder

TRUTH = Truth(
    chain=("zombie_cgroups", "cgroup_walker", "saturated_core"),
    subject="controller:memory",
    silent=("crash_looping_unit", "cgroup_churn", "cpu_throttling", "direct_reclaim", "realtime_hog"),
)
NEEDS = ("root",)
SECONDS = 10.0
SHORT = True
NESTED = 8
DEAD = 16_000  # at 1 to 2 µs each a read holds its core for 16 ms or more, which samples show


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    core = max(os.sched_getaffinity(0))
    count = max(1_000, round(DEAD * scale))
    with (
        # One page pins a chain of eight: changing the pages must take less time than the walk.
        leaked(count // NESTED, label="walk", nested=NESTED) as leak,
        walking(os.path.join(memory_folder(), "memory.stat"), core=core, pages=leak.file),
    ):
        yield Fault(
            subject="controller:memory",
            says=f"a process walks {count:,} dying cgroups over and over on core {core}",
        )
