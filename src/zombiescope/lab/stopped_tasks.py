"""A process was stopped by a signal and nobody continues it: it answers nothing, and nothing shows why."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._scenario import CPU_FAULTS, Fault, Truth
from zombiescope.lab._stallers import staller

TRUTH = Truth(chain=("stopped_tasks",), noted=True, subject="node", silent=(*CPU_FAULTS, "frozen_cgroup", "pipe_full"))
NEEDS = ("root",)
SECONDS = 12.0


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:  # noqa: ARG001  (one is enough)
    with staller("waits") as pid:
        os.kill(pid, signal.SIGSTOP)
        yield Fault(subject="node", says=f"process {pid} is stopped")
