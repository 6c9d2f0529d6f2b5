"""Two processes in a cgroup limited to 24 MB read a gigabyte of files: each page must be reclaimed first.

The files are sparse, so there is no disk IO, only reclaim. No counter of the whole node shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.lab._loads import limited, load, sparse_file, subject
from zombiescope.lab._scenario import KERNEL_CAUSES, PREFIX, Fault, Truth

TRUTH = Truth(chain=("direct_reclaim",), subject=rf"cgroup:/{PREFIX}reclaim-\d+", silent=KERNEL_CAUSES)
NEEDS = ("root",)
SECONDS = 8.0
LIMIT, SIZE = 24 << 20, 1 << 30  # each reader is a Python of 7 MB itself: with less one is OOM-killed now and then
READERS = 2


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    readers = max(READERS, round(READERS * scale))
    with ExitStack() as undo:
        folder = undo.enter_context(limited("reclaim", LIMIT))
        for number in range(readers):
            path = undo.enter_context(sparse_file(f"reclaim-{number}", SIZE))
            undo.enter_context(load("wander", path, str(number), cgroup=folder))
        yield Fault(
            subject=subject(folder),
            says=f"{readers} readers need far more page cache than its limit of {LIMIT >> 20} MB",
        )
