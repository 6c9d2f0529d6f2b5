"""A cgroup with 64 times the usual CPU weight keeps every core busy, and a job of the usual weight hardly runs."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.lab._cgroups import join_all, weighed
from zombiescope.lab._loads import load
from zombiescope.lab._scenario import PREFIX, Fault, Truth
from zombiescope.lab._starvers import starver

TRUTH = Truth(
    chain=("unfair_weight", "starved_thread"),
    subject=rf"cgroup:/{PREFIX}heavy-\d+",
    silent=("cpu_throttling", "realtime_hog", "fork_storm", "defunct_processes", "blocked_tasks"),
)
NEEDS = ("root",)
SECONDS = 12.0
TIMES = 64.0  # as 65,536 shares of pods, on a node of 64 cores, against 1,024 of a system unit


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:  # noqa: ARG001 - a weight is not more of one
    with ExitStack() as undo:
        heavy, path = undo.enter_context(weighed("heavy", TIMES))
        usual, _ = undo.enter_context(weighed("usual", 1.0))
        for core in sorted(os.sched_getaffinity(0)):
            join_all(heavy, undo.enter_context(starver("spin", str(core))))
        job = undo.enter_context(load("job", "0.8"))
        join_all(usual, job)
        yield Fault(subject=f"cgroup:{path}", says=f"process {job} weighs a {TIMES:.0f}th of those that fill the cores")
