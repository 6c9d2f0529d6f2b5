"""A process reads cgroup files far too often, with hardly any dying cgroups: the reader alone is at fault."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._loads import load
from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._walker import walking
from zombiescope.lab._zombies import memory_folder

TRUTH = Truth(
    chain=("cgroup_walker",),
    subject=r"process:zslab-walker\[\d+\]",
    silent=("crash_looping_unit", "zombie_cgroups", "cgroup_churn", "cpu_throttling", "realtime_hog"),
)
NEEDS = ("root",)
SECONDS = 8.0


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:  # noqa: ARG001 - one walker is the fault, whatever the scale
    core = max(os.sched_getaffinity(0))
    # A job wants the same core: a walk on a core that nobody else wants harms nobody.
    with (
        load("job", "0.9", within=("taskset", "-c", str(core))),
        walking(os.path.join(memory_folder(), "memory.stat"), core=core) as pid,
    ):
        yield Fault(
            subject=f"process:zslab-walker[{pid}]", says=f"a process reads memory.stat over and over on core {core}"
        )
