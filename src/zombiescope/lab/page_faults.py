"""Programs allocate memory, touch it and free it over and over: the kernel is busy with page faults, and a job waits.

One program for each core would keep all of them busy and harm nobody; the job beside them is the one that pays.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.lab._loads import load
from zombiescope.lab._scenario import KERNEL_CAUSES, Fault, Truth

TRUTH = Truth(chain=("page_fault_storm",), subject="node", silent=KERNEL_CAUSES)
NEEDS: tuple[str, ...] = ()
SECONDS = 8.0
JOB = 0.5  # of a core: it would fit if the cores were not busy with faults
SIZE = 128 << 20  # bytes each: far below what any test machine has


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    programs = max(1, round(len(os.sched_getaffinity(0)) * min(scale, 1.0)))
    with ExitStack() as undo:
        for _ in range(programs):
            undo.enter_context(load("touch", str(SIZE)))
        job = undo.enter_context(load("job", str(JOB)))
        says = f"{programs} programs touch {SIZE >> 20} MB of new memory over and over, and process {job} waits"
        yield Fault(subject="node", says=says)
