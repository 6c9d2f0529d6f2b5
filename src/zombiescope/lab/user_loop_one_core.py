"""Control: a program keeps one core busy in user code, which is no fault."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._scenario import CPU_FAULTS, Fault, Truth
from zombiescope.lab._starvers import starver

TRUTH = Truth(silent=CPU_FAULTS)
NEEDS: tuple[str, ...] = ()
SECONDS = 8.0
SHORT = True


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:  # noqa: ARG001 - one loop on one core
    core = max(os.sched_getaffinity(0))
    with starver("spin", str(core)) as pid:
        yield Fault(subject="node", says=f"process {pid} keeps core {core} busy in user code")
