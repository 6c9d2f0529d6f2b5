"""A cgroup at its memory limit has thousands of dying children, and every reclaim walks all of them.

They are pinned by tmpfs, which reclaim cannot free, so it visits each of them for nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._loads import limit, load, sparse_file, subject, usage
from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._zombies import leaked

TRUTH = Truth(
    chain=("zombie_cgroups", "direct_reclaim"),
    subject="controller:memory",
    silent=("page_fault_storm", "irq_pile_up", "softirq_storm", "mount_explosion", "crash_looping_unit"),
)
NEEDS = ("root",)
SECONDS = 8.0
DEAD = 3_000  # each hit on the limit then costs 0.1 ms, a hundred times as much as without
ROOM = 16 << 20  # bytes left below the limit


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    dead = max(1_500, round(DEAD * scale))
    with sparse_file("slow", 4 << 30) as path, leaked(dead, label="slow") as leak:
        limit(leak.parent, usage(leak.parent) + ROOM)
        with load("stream", path, cgroup=leak.parent):
            yield Fault(
                subject="controller:memory", says=f"{subject(leak.parent)} is at its limit with {dead:,} dying children"
            )
