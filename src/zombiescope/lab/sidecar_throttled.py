"""Control: a sidecar is throttled in every period of its quota, for 2.5 ms of each 100 ms, which nobody notices."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._cgroups import PERIOD, join, with_quota
from zombiescope.lab._scenario import CPU_CAUSES, Fault, Truth
from zombiescope.lab._starvers import starver

TRUTH = Truth(silent=(*CPU_CAUSES, "starved_thread"))
NEEDS = ("root",)
SECONDS = 8.0
STOPPED = 2_500  # microseconds of each period


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:  # noqa: ARG001 - more of it would be a fault
    with with_quota("sidecar", PERIOD - STOPPED) as folder, starver("spin") as pid:
        join(folder, pid)
        says = f"process {pid} is throttled for {STOPPED / 1000} ms of each {PERIOD / 1000:.0f} ms"
        yield Fault(subject="node", says=says)
