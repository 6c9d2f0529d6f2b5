"""Control: a real-time process polls a core that nothing else wants, as packet pollers do on cores of their own."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._starvers import starver

TRUTH = Truth()  # it may be noted
NEEDS = ("root",)
SECONDS = 8.0
ALONE = True


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:  # noqa: ARG001 - one poller on one core
    core = max(os.sched_getaffinity(0))
    with starver("hog", str(core)) as pid:
        yield Fault(subject="node", says=f"process {pid} polls core {core} at real-time priority, and nobody waits")
