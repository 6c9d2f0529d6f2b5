"""Shells on every core do nothing but fork children, which exit at once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.lab._scenario import PREFIX, Fault, Truth
from zombiescope.lab._starvers import starver

TRUTH = Truth(
    chain=("fork_storm",),
    subject="node",
    silent=("realtime_hog", "cpu_throttling", "defunct_processes", "blocked_tasks"),
)
NEEDS: tuple[str, ...] = ()
SECONDS = 8.0


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    shells = max(1, round(len(os.sched_getaffinity(0)) * scale))
    with ExitStack() as undo:
        for _ in range(shells):
            undo.enter_context(starver("fork"))
        yield Fault(subject="node", says=f"{shells} shells ({PREFIX}fork) fork children without pause")
