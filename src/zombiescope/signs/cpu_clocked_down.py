"""Busy cores run far below the speed that they are sold for: heat, a power limit or a setting holds them back.

Why it hurts: all that runs there is slower by that much, and use, load and every other figure look as always. One such
    node among many sets the pace of a whole training job.
False alarms: idle cores are slow on purpose, and wide vector code lowers the clock by a tenth. So only cores that are
    busy count, and only far below their nominal speed, which is less than what they reach in a boost.
References: Documentation/admin-guide/pm/cpufreq.rst; Documentation/admin-guide/pm/intel_pstate.rst (base_frequency);
    drivers/thermal/intel/therm_throt.c; Documentation/power/powercap/powercap.rst
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from zombiescope.core import Finding, Reading, Span, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline
from zombiescope.derived.kernel_log import lines_of, logged

CLOCK, NOMINAL, HEAT = "cpu_clock_hertz", "cpu_nominal_hertz", "cpu_heat_seconds_total"
KNOWN = "cpu_clocks_known"
IDLE, WAITS = "cpu_idle_seconds_total", "cpu_iowait_seconds_total"
# Scale: shares of a core's own speed and time.
NEEDS = (KNOWN, IDLE)
SLOW = 0.7  # of the nominal speed: vector code costs a tenth, a deep power limit half and more
BUSY = 0.5  # of the time: a core that is mostly idle may run as slowly as it likes
HOT = 0.1  # of the time that heat held a core back: the kernel ignores shorter spikes as well
LOOKS = 3  # samples in which it was so: one may be of a moment at which the core woke up
SHOWN = 3  # cores and lines, as evidence


class _Slow(NamedTuple):
    cpu: str
    share: float  # of its nominal speed
    busy: float
    hot: float
    evidence: Reading

    @property
    def lost(self) -> float:
        """Of a core: what it would have done more at its nominal speed."""
        return (1 - self.share) * self.busy


def find(timeline: Timeline) -> Iterator[Finding]:
    slow = [it for cpu in timeline.subjects(IDLE, "cpu") if (it := _slow(timeline, cpu)) is not None]
    if not slow:
        return
    lines = lines_of(timeline, "overheated")
    span = timeline.looks(CLOCK).span if timeline.looked(CLOCK) else timeline.looks(HEAT).span
    known = [it for it in slow if it.share < 1]
    lost = sum(it.lost for it in known)
    pace = f"at {percent(float(np.mean([it.share for it in known])))} of their nominal speed" if known else "slower"
    hot = max(it.hot for it in slow)
    heat = f"heat held them back up to {percent(hot)} of the time"
    why = heat if hot >= HOT else "no heat was counted, so a power limit or a setting holds them"
    yield Finding(
        subject="node",
        span=span,
        says=f"ran {len(slow)} busy cores {pace}: {why}{logged(lines, 'times that cores were too hot')}",
        evidence=(*(it.evidence for it in slow[:SHOWN]), *(it.reading for it in lines[:SHOWN])),
        harm=Harm(
            parts=(Part(figure="waited", who="node", amount=lost, span=span),) if known else (),
            unknown=() if known else ("waited",),
        ),
    )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    shares = {cpu: _share(timeline, cpu) for cpu in timeline.subjects(CLOCK, "cpu")}
    known = {cpu: share for cpu, share in shares.items() if share is not None}
    if not known:
        told = timeline.latest(HEAT)[:SHOWN]
        words = "heat held no core back" if told else "its cores' speed is not this machine's to know: ask its host"
        return words, tuple(told or timeline.latest(KNOWN))
    slowest = min(known, key=lambda cpu: known[cpu])
    words = f"slowest: {slowest.replace(':', ' ')} at {percent(known[slowest])} of its nominal speed"
    return words, (timeline.series(CLOCK, slowest).latest,)


def _slow(timeline: Timeline, cpu: str) -> _Slow | None:
    heat = timeline.rate(HEAT, cpu)
    hot = heat.mean() if len(heat) else 0.0
    share = _share(timeline, cpu)
    span = timeline.looks(CLOCK).span if share is not None else heat.span if len(heat) else None
    if span is None or (busy := _busy(timeline, cpu, span)) < BUSY:
        return None
    if share is not None and share < SLOW and timeline.looked(CLOCK, LOOKS):
        return _Slow(cpu, share, busy, hot, timeline.series(CLOCK, cpu).figure("cpu_clock_hertz"))
    return _Slow(cpu, 1.0, busy, hot, heat.figure("cpu_heat_ratio")) if hot >= HOT else None


def _share(timeline: Timeline, cpu: str) -> float | None:
    """Of its nominal speed, at the median: most samples of a busy core are of the speed at which it works."""
    clock, nominal = timeline.series(CLOCK, cpu), timeline.series(NOMINAL, cpu)
    if not len(clock) or not len(nominal) or not nominal.latest.value:
        return None
    held = clock.sampled(timeline.look_times(CLOCK))
    return float(np.nanmedian(held)) / nominal.latest.value


def _busy(timeline: Timeline, cpu: str, span: Span) -> float:
    rest = sum(rate.mean() for what in (IDLE, WAITS) if len(rate := timeline.rate(what, cpu, within=span)))
    return 1.0 - rest
