"""A metric reads smaps of a large process and clears its reference bits without pause, on the core of a job."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._loads import load
from zombiescope.lab._memory_users import memory_user
from zombiescope.lab._scenario import PREFIX, Fault, Truth

TRUTH = Truth(
    chain=("proc_walker",),
    subject=rf"process:{PREFIX}measures\[\d+\]",
    silent=("cpu_throttling", "realtime_hog", "fork_storm", "blocked_tasks", "cgroup_walker", "kernel_lock"),
)
NEEDS = ("root",)
SECONDS = 8.0
SIZE = 512 << 20  # bytes: 131,072 pages, each of which is visited
PAUSE = 0.01  # seconds between two readings: with 8 GB one a second costs as much
JOB = 0.5  # of the core


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    there = ("taskset", "--cpu-list", str(max(os.sched_getaffinity(0))))
    with (
        memory_user("holds", str(round(SIZE * min(max(scale, 0.1), 8.0)))) as large,
        load("job", str(JOB), within=there) as job,
        memory_user("measures", str(large), str(PAUSE), within=there) as pid,
    ):
        says = f"process {pid} reads the pages of process {large} and keeps process {job} waiting"
        yield Fault(subject=f"process:{PREFIX}measures[{pid}]", says=says)
