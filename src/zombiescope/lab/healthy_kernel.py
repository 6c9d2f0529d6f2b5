"""Control: a cheap BPF hook, short turns at a memory map, a metric now and then, batch work of low weight."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.lab._cgroups import join_all, weighed
from zombiescope.lab._hook import hook_user
from zombiescope.lab._loads import load
from zombiescope.lab._memory_users import memory_user
from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._starvers import starver

TRUTH = Truth(
    silent=(
        *("hook_tax", "kernel_lock", "proc_walker", "unfair_weight", "cpu_throttling", "realtime_hog", "fork_storm"),
        *("saturated_core", "direct_reclaim", "page_fault_storm", "softirq_storm", "blocked_tasks"),
    )
)
NEEDS = ("root", "bpf")
SECONDS = 10.0
LIGHT = 1 / 512  # of the usual weight: it is meant to come last


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    with ExitStack() as undo:
        light, path = undo.enter_context(weighed("light", LIGHT))
        for core in sorted(os.sched_getaffinity(0)):
            join_all(light, undo.enter_context(starver("spin", str(core))))
        caller = undo.enter_context(hook_user("calls", "0.3"))
        undo.enter_context(hook_user("hooks", str(caller), "1"))
        undo.enter_context(memory_user("protects", "2", str(4 << 20), "0.05"))
        large = undo.enter_context(memory_user("holds", str(64 << 20)))
        undo.enter_context(memory_user("measures", str(large), "2"))
        undo.enter_context(load("job", str(0.3 * scale)))
        yield Fault(subject="node", says=f"{path} comes last, as it should; process {caller} has a cheap hook")
