"""How much of a core its softirqs want: what they take, and all of it where ksoftirqd has work at all times.

On a core that others use too ksoftirqd shares it with them: however many packets come, softirqs then take a half or a
third of the core, and never catch up.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from zombiescope.core import Reading, Span, percent
from zombiescope.core.timeline import Series, Timeline

SOFTIRQ = "cpu_softirq_seconds_total"
RUN, DELAY = "thread_run_seconds_total", "thread_run_delay_seconds_total"
ALWAYS = 0.95  # of a second in which it ran or waited to run: its work does not end
LEAST = 0.25  # of the core in softirqs over a second: with less they are starved, not many
SAID = 0.2  # of the time that it waited: less is its turn that comes


def wanted(timeline: Timeline, work: Series, lasting: float) -> Series:
    """`work`, the share of a core that softirqs take, with 1 where they would take all of it; for `lasting` or more."""
    thread = _thread(work.subject)
    if not _for(timeline, thread, ALWAYS * lasting):
        return work
    run, delay = (np.nan_to_num(timeline.rate(it, thread).sampled(work.at)) for it in (RUN, DELAY))
    taken = np.nan_to_num(timeline.rate(SOFTIRQ, work.subject, over=1.0).sampled(work.at))
    never_done = (run + delay >= ALWAYS) & (taken >= LEAST)
    return replace(work, values=np.where(never_done, np.maximum(work.values, 1.0), work.values))


def waited(timeline: Timeline, cpu: str, span: Span) -> tuple[str, tuple[Reading, ...]]:
    """How long ksoftirqd waited for the core: in words, with its reading; nothing if that is not worth a word."""
    delay = timeline.rate(DELAY, _thread(cpu), within=span)
    if not len(delay) or not delay.mean() >= SAID:
        return "", ()
    name = _thread(cpu).removeprefix("thread:")
    return f", while {name} waited for it {percent(delay.mean())} of the time", (delay.figure("run_delay_ratio"),)


def _thread(cpu: str) -> str:
    return f"thread:ksoftirqd/{cpu.removeprefix('cpu:')}"


def _for(timeline: Timeline, thread: str, seconds: float) -> bool:
    """Whether it had work for so long at all: asked of each core of a large node."""
    both = [timeline.series(it, thread) for it in (RUN, DELAY)]
    return sum(float(np.nanmax(it.values) - np.nanmin(it.values)) for it in both if len(it)) >= seconds
