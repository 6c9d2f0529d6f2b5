"""An innocent load beside a fault: each core computes for a share of its time, as on a node that has work to do."""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.lab._scenario import PREFIX
from zombiescope.lab._worker import play, ready, worker

ROLE = "beside"
BESIDE = rf"process:{PREFIX}{ROLE}\[\d+\]"  # as a diagnosis would name it
_PERIOD = 0.02  # seconds: a request or a batch; long enough that timers and switches do not count


@contextmanager
def steady_load(share: float) -> Iterator[None]:
    """One process for each core, bound to it, that wants this share of it; nothing if that is 0."""
    with ExitStack() as running:
        for core in sorted(os.sched_getaffinity(0)) if share else ():
            running.enter_context(worker(__name__, ROLE, str(core), str(share)))
        yield


def _compute(core: str, share: str) -> None:
    """Compute until its share of CPU time is used up, however long that takes, then sleep for the rest."""
    os.sched_setaffinity(0, {int(core)})
    ready()
    while True:
        began, used = time.monotonic(), time.process_time()
        while time.process_time() - used < _PERIOD * float(share):
            sum(range(500))
        time.sleep(max(_PERIOD - (time.monotonic() - began), 0.0))


if __name__ == "__main__":
    play({ROLE: _compute})
