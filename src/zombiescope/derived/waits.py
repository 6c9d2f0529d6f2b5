"""Who else wanted the CPU: how much others waited for one core, or for any core of the node, over a span."""

from __future__ import annotations

import re

import numpy as np

from zombiescope.core.model import Reading, Span
from zombiescope.core.timeline import Timeline
from zombiescope.derived.cores import busy_cores, cores, risen

PROCESS, THREAD = "process_run_delay_seconds_total", "thread_run_delay_seconds_total"
PRESSURE = "pressure_cpu_waiting_seconds_total"
_BOUND = re.compile(r".*/(\d+)", re.DOTALL)  # ksoftirqd/3
_WORKER = re.compile(r"process:kworker/\d+:.*", re.DOTALL)  # of one core; kworker/u4:1 goes where there is room


def waited_for_core(timeline: Timeline, cpu: int, span: Span, *, but: str = "") -> float | None:
    """Cores' worth of waiting of all that were followed on one core, without one of them; None: nothing was followed.

    A lower bound: processes are followed by their first thread, the runnable ones and the busiest first. The kernel's
    own workers of a core do not count: they also do its housekeeping, for which nobody waits. Who waits for one is
    found waiting himself.
    """
    there = [(what, it) for what, it in _on_core(timeline, cpu, span) if it != but]
    known = [_mean(timeline, what, it, span) for what, it in there if not _WORKER.fullmatch(it)]
    if not known and not (timeline.looked(PROCESS, 2) or timeline.looked(THREAD, 2)):
        return None
    return float(sum(known))


def longest_waiter(timeline: Timeline, cpu: int, span: Span, *, but: str = "") -> Reading | None:
    """Of those followed on one core, without one of them, who waited for it most: the share of the span."""
    rates = [timeline.rate(what, it, within=span) for what, it in _on_core(timeline, cpu, span) if it != but]
    known = [it for it in rates if len(it) and it.mean() > 0]
    return max(known, key=lambda it: it.mean()).figure("run_delay_ratio") if known else None


def waited_anywhere(timeline: Timeline, span: Span, *, spent: float | None = None) -> float | None:
    """On how many cores somebody waited for the CPU; None where neither pressure nor run delay is known.

    Behind so many cores' worth of time that were `spent`, if that is given: on a large node somebody always waits
    somewhere, and a thing that takes a hundredth of the node's time is what a hundredth of them wait for.
    """
    pressure, edges = timeline.rate(PRESSURE), _edges(span)
    # The kernel weighs each core by the time that it was busy.
    busy = float(busy_cores(timeline, edges)[0]) if cores(timeline) else 1.0
    behind = busy if spent is None else min(spent, busy)
    if len(pressure):
        share = float(risen(pressure, edges)[0])
        if np.isnan(share):  # the span is not wholly within what was sampled
            share = float(np.nan_to_num(pressure.between(span).mean()))
        return share * behind
    if not timeline.looked(PROCESS, 2):
        return None
    return float(sum(_mean(timeline, PROCESS, it, span) for it in timeline.subjects(PROCESS))) * behind / busy


def waited_for(timeline: Timeline, cpu: int, span: Span, *, spent: float, but: str = "") -> float | None:
    """Behind what one thing `spent` on a core: its share of the waiting for that core, or of the node's.

    Whichever is more; None: neither is known.
    """
    there = waited_for_core(timeline, cpu, span, but=but)
    known = [there * min(spent, 1.0) if there is not None else None, waited_anywhere(timeline, span, spent=spent)]
    return max((it for it in known if it is not None), default=None)


def _on_core(timeline: Timeline, cpu: int, span: Span) -> list[tuple[str, str]]:
    """Threads bound to the core, and processes that ran, or waited, there when they were last sampled in the span."""
    bound, roaming, processes = timeline.once(_followed)
    found = [(THREAD, it) for it in bound.get(cpu, ())]
    for what, core, subjects in ((THREAD, "thread_cpu", roaming), (PROCESS, "process_cpu", processes)):
        for subject in subjects:
            ran = timeline.series(core, subject).between(span)
            found += [(what, subject)] * bool(len(ran) and int(ran.latest.value) == cpu)
    return found


def _followed(timeline: Timeline) -> tuple[dict[int, list[str]], list[str], list[str]]:
    """Threads by the core that they are bound to, threads that roam, and processes."""
    bound: dict[int, list[str]] = {}
    roaming = []
    for thread in timeline.subjects(THREAD, "thread"):
        named = _BOUND.fullmatch(thread)
        if len(timeline.series("thread_cpu", thread)) and not thread.startswith("thread:ksoftirqd/"):
            roaming.append(thread)
        elif named is not None:
            bound.setdefault(int(named[1][:9]), []).append(thread)
    return bound, roaming, timeline.subjects(PROCESS, "process")


def _mean(timeline: Timeline, what: str, subject: str, span: Span) -> float:
    rate = timeline.rate(what, subject, within=span)
    return float(np.nan_to_num(rate.mean())) if len(rate) else 0.0


def _edges(span: Span) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    return np.array([span.start, max(span.end, span.start + 1e-3)])
