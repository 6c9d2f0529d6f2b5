"""The keep-alive timers of many idle connections expire in the same tick, and one softirq runs all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.lab._idle_connections import connections
from zombiescope.lab._scenario import CPU_CAUSES, Fault, Truth

TRUTH = Truth(
    chain=("long_softirq",), noted=True, subject=r"cpu:\d+", silent=(*CPU_CAUSES, "lost_packets", "table_full")
)
NEEDS = ("root", "unshare")
SECONDS = 9.0
MANY, PROCESSES = 19_000, 5  # connections of each process, as many as it may open where nobody raised the limit


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    core, many = max(os.sched_getaffinity(0)), min(round(MANY * max(scale, 0.2)), 100_000)
    with ExitStack() as undo:
        pids = [undo.enter_context(connections("keeps", str(core), str(many))) for _ in range(PROCESSES)]
        says = f"processes {', '.join(map(str, pids))} keep {many:,} idle connections alive each, all at once"
        yield Fault(subject=f"cpu:{core}", says=says)
