"""The keep-alive timers of many idle connections expire in the same tick, and one softirq runs all of them."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._idle_connections import connections
from zombiescope.lab._scenario import CPU_CAUSES, Fault, Truth

TRUTH = Truth(chain=("long_softirq",), subject=r"cpu:\d+", silent=(*CPU_CAUSES, "lost_packets", "table_full"))
NEEDS = ("root", "unshare")
SECONDS = 9.0
MANY = 20_000  # connections: their probes and answers take a tenth of a core in all, 50 ms at a time


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    core, many = max(os.sched_getaffinity(0)), min(round(MANY * max(scale, 0.2)), 100_000)
    with connections("keeps", str(core), str(many)) as pid:
        yield Fault(subject=f"cpu:{core}", says=f"process {pid} keeps {many:,} idle connections alive, all at once")
