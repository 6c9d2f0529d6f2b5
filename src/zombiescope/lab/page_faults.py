"""Two programs allocate memory, touch it and free it over and over: the kernel is busy with page faults."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.lab._loads import load
from zombiescope.lab._scenario import KERNEL_CAUSES, Fault, Truth

TRUTH = Truth(chain=("page_fault_storm",), subject="node", silent=KERNEL_CAUSES)
NEEDS: tuple[str, ...] = ()
SECONDS = 8.0
SIZE = 128 << 20  # bytes each: far below what any test machine has


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    programs = max(1, round(len(os.sched_getaffinity(0)) * min(scale, 1.0)))
    with ExitStack() as undo:
        for _ in range(programs):
            undo.enter_context(load("touch", str(SIZE)))
        yield Fault(subject="node", says=f"{programs} programs touch {SIZE >> 20} MB of new memory over and over")
