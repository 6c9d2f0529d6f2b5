"""A process of normal priority is bound to the core of a real-time process that hardly ever sleeps."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._scenario import CPU_CAUSES, PREFIX, Fault, Truth
from zombiescope.lab._starvers import starver

TRUTH = Truth(chain=("realtime_hog", "starved_thread"), subject=rf"process:{PREFIX}hog\[\d+\]", silent=CPU_CAUSES)
NEEDS = ("root",)
SECONDS = 8.0


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:  # noqa: ARG001 - one hog is the fault
    core = str(max(os.sched_getaffinity(0)))
    with starver("spin", core) as starved, starver("hog", core) as hog:
        yield Fault(subject=f"process:{PREFIX}hog[{hog}]", says=f"process {starved} gets almost no CPU on core {core}")
