"""Whether a node had as much to do after a fix as before it: a fault that load brings does not come on an idle node."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

import numpy as np

from zombiescope.core import Check
from zombiescope.core.timeline import Timeline
from zombiescope.derived.cores import cores

ENOUGH = 0.5  # of the load before: jobs are never quite steady, and less than half is another load
LITTLE_CORES = 0.25  # cores: daemons and we ourselves take this much on a node that has no work
LITTLE_PACKETS = 100.0  # a second: heartbeats and a login come to a few dozen
_WORK = ("user", "nice")
_BUSY = (*_WORK, "system", "irq", "softirq")  # stolen time is no work of this node
_TIMES = ("process_user_seconds_total",)
_PACKETS = "softnet_processed_total"


class Load(NamedTuple):
    """One measure of what a node had to do."""

    name: str
    little: float
    before: float
    after: float
    digits: int = 2

    @property
    def mattered(self) -> bool:
        return self.before >= self.little

    @property
    def comparable(self) -> bool:
        return self.after >= ENOUGH * self.before

    @property
    def says(self) -> str:
        return f"{self.name}: {self.before:,.{self.digits}f} before, {self.after:,.{self.digits}f} after"


def comparable_load(before: Timeline, after: Timeline, faulty: Collection[str]) -> Check:
    """`faulty`: subjects of the fault. What their cores and processes burnt is no load that must come back."""
    name = "comparable load"
    measures = [it for it in _measures(before, after, faulty) if not np.isnan((it.before, it.after)).any()]
    if not measures:
        return Check(name=name, state="blind", says="neither busy time nor packets were read twice")
    mattered = [it for it in measures if it.mattered]
    says = "; ".join(it.says for it in measures)
    if not mattered:
        return Check(name=name, state="held", says=f"little to do before and after: {says}")
    if any(it.comparable for it in mattered):
        return Check(name=name, state="held", says=says)
    return Check(name=name, state="blind", says=f"less than half the load: {says}")


def _measures(before: Timeline, after: Timeline, faulty: Collection[str]) -> Iterator[Load]:
    both = (before, after)
    if all({*cores(it)} - {*faulty} for it in both):
        was, now = (_in_modes(it, _BUSY, [core for core in cores(it) if core not in faulty]) for it in both)
        yield Load(
            "cores busy" + (" beside the fault's" if set(cores(before)) & {*faulty} else ""), LITTLE_CORES, was, now
        )
    was, now = (max(_in_modes(it, _WORK, cores(it)) - _burnt(it, faulty), 0.0) for it in both)
    yield Load("cores busy in programs", LITTLE_CORES, was, now)
    was, now = (_rate(it, (_PACKETS,), it.subjects(_PACKETS)) for it in both)
    yield Load("packets a second", LITTLE_PACKETS, was, now, digits=0)


def _in_modes(timeline: Timeline, modes: Collection[str], subjects: Collection[str]) -> float:
    return _rate(timeline, [f"cpu_{mode}_seconds_total" for mode in modes], subjects)


def _burnt(timeline: Timeline, faulty: Collection[str]) -> float:
    return float(np.nan_to_num(_rate(timeline, _TIMES, [it for it in faulty if it.startswith("process:")])))


def _rate(timeline: Timeline, whats: Collection[str], subjects: Collection[str]) -> float:
    """How fast these counters rose together; NaN where none was read twice."""
    rates = [rate.mean() for what in whats for it in subjects if len(rate := timeline.rate(what, it))]
    return float(np.nansum(rates)) if not np.isnan(rates).all() else float("nan")
