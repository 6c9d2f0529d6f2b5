"""A thread for each core, all of one process, change the rights of their memory and spin for its memory map."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.core import UserError
from zombiescope.lab._memory_users import memory_user
from zombiescope.lab._scenario import PREFIX, Fault, Truth

TRUTH = Truth(
    chain=("kernel_lock",),
    subject="lock:a memory map",
    silent=("cpu_throttling", "realtime_hog", "fork_storm", "blocked_tasks", "direct_reclaim", "page_fault_storm"),
)
NEEDS: tuple[str, ...] = ()
SECONDS = 8.0
SIZE = 64 << 20  # bytes for each thread: 16,384 pages, about a millisecond with the lock held
MOST = 8  # threads: one a core, so that the holder runs while the others spin; with more they sleep instead


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    threads = min(len(os.sched_getaffinity(0)), MOST)
    if threads < 2:
        raise UserError("with one core nobody spins")
    with memory_user("protects", str(threads), str(round(SIZE * max(scale, 1.0))), "0") as pid:
        says = f"{threads} threads of process {pid} take turns to hold its memory map"
        yield Fault(subject=f"process:{PREFIX}protects[{pid}]", says=says)
