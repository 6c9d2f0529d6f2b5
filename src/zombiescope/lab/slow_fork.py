"""A process of two gigabytes forks for helpers without pause, on the core of a job: each copies its page tables."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._loads import load
from zombiescope.lab._memory_users import memory_user
from zombiescope.lab._scenario import PREFIX, Fault, Truth

NEEDS = ("root",)
SECONDS = 9.0
TRUTH = Truth(
    chain=("slow_fork",),
    subject=rf"process:{PREFIX}starts\[\d+\]",
    silent=("cpu_throttling", "realtime_hog", "fork_storm", "blocked_tasks", "kernel_lock", "proc_walker"),
)
SIZE = 2 << 30  # bytes: half a million pages, whose entries are copied
PAUSE = 0.02  # seconds between two forks
JOB = 0.5  # of the core


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    there = ("taskset", "--cpu-list", str(max(os.sched_getaffinity(0))))
    size = round(SIZE * min(max(scale, 0.1), 4.0))
    with load("job", str(JOB), within=there) as job, memory_user("starts", str(size), str(PAUSE), within=there) as pid:
        says = f"process {pid} forks all the time and keeps process {job} waiting"
        yield Fault(subject=f"process:{PREFIX}starts[{pid}]", says=says)
