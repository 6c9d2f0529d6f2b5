"""Control: a kernel thread of io_uring polls one core for requests (SQPOLL): full of kernel time, on purpose."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._innocents import innocent
from zombiescope.lab._scenario import CPU_CAUSES, Fault, Truth

# A saturated core is what it is, and may be noted.
TRUTH = Truth(silent=tuple(it for it in CPU_CAUSES if it != "saturated_core"))
NEEDS: tuple[str, ...] = ()
SECONDS = 8.0
ALONE = True


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:  # noqa: ARG001 - one thread on one core
    core = max(os.sched_getaffinity(0))
    with innocent("poll", str(core)) as pid:
        yield Fault(subject="node", says=f"a thread of process {pid} polls core {core} and never sleeps")
