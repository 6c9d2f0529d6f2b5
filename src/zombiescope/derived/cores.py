"""How many cores were idle or busy, and how many cores' worth of time tasks waited for memory."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import numpy as np
import numpy.typing as npt

from zombiescope.core.model import Span
from zombiescope.core.timeline import Floats, Series, Timeline

IDLE = ("idle", "iowait")  # a core that waits for a disk is idle
# What a core's time is shown as, and what each is made of in /proc/stat. iowait counts as idle.
MODES = {
    "user": ("user", "nice"),
    "system": ("system",),
    "irq": ("irq",),
    "softirq": ("softirq",),
    "steal": ("steal",),
}
WAITING = "pressure_memory_waiting_seconds_total"


def cores(timeline: Timeline) -> list[str]:
    """Every core that was sampled: cpu:0, cpu:1, …"""
    return timeline.subjects("cpu_idle_seconds_total", "cpu")


def risen(rate: Series, edges: Floats) -> Floats:
    """How fast a counter rose between each edge and the next, at whatever times it was read itself.

    Between two readings it is assumed to rise evenly; NaN where it was not read.
    """
    known = ~np.isnan(rate.values)
    times = np.append(rate.at[known], rate.until)
    sums = np.append(0.0, np.cumsum(rate.values[known] * np.diff(rate.at, append=rate.until)[known]))
    if len(times) < 2:
        return np.full(len(edges) - 1, np.nan)
    rises: Floats = np.diff(np.interp(edges, times, sums, left=np.nan, right=np.nan)) / np.diff(edges)
    return rises


def risen_together(timeline: Timeline, what: str, subjects: Iterable[str], edges: Floats) -> Floats:
    """The same for several counters, added up; one that was not read adds nothing."""
    total = np.zeros(len(edges) - 1)
    times = timeline.look_times(what)
    if len(times) < 2:
        return total
    # Between two looks it rises evenly; what lies outside them adds nothing.
    after = np.clip(np.searchsorted(times, edges), 1, len(times) - 1)
    before = after - 1
    early, late = times[before], times[after]
    part = (edges - early) / (late - early)
    for subject in subjects:
        counter = timeline.series(what, subject)
        first = _held(counter, before, early, len(times))
        value = first + part * (_held(counter, after, late, len(times)) - first)
        # A step back is jitter, or a counter that began anew: it did not fall. What is not known adds nothing.
        total += np.fmax(value[1:] - value[:-1], 0.0)
    outside = (edges < times[0]) | (edges > times[-1])
    total[outside[1:] | outside[:-1]] = 0.0
    return total / np.diff(edges)


def _held(counter: Series, places: npt.NDArray[np.int64], times: Floats, looks: int) -> Floats:
    """What the counter was at these looks. Most counters of a busy node change at each: then places are the same."""
    if len(counter) == looks and np.array_equal(counter.at[places], times):
        return counter.values[places]
    return counter.sampled(times)


def in_modes(timeline: Timeline, modes: Iterable[str], edges: Floats) -> Floats:
    """Cores' worth of time that all cores spent in these modes between the edges."""
    whats = [f"cpu_{mode}_seconds_total" for mode in modes]
    total = np.zeros(len(edges) - 1)
    for what in whats:
        total += risen_together(timeline, what, timeline.subjects(what, "cpu"), edges)
    return total


def busy_cores(timeline: Timeline, edges: Floats) -> Floats:
    """How many cores worked between the edges, at least one."""
    return np.maximum(len(cores(timeline)) - in_modes(timeline, IDLE, edges), 1.0)


def idle_cores(timeline: Timeline, span: Span) -> float:
    """How many cores' worth of time was idle over a span."""
    whats = [f"cpu_{mode}_seconds_total" for mode in IDLE]
    rates = [timeline.rate(what, cpu, within=span) for what in whats for cpu in cores(timeline)]
    return float(sum(np.nan_to_num(rate.mean()) for rate in rates if len(rate)))


def fair_share(timeline: Timeline, span: Span) -> float:
    """What each runnable thread would have got if all of them had shared all cores, as a part of what it wanted."""
    many_cores, running = len(cores(timeline)), timeline.series("procs_running").between(span)
    mean = running.mean() if len(running) else float("nan")
    return min(1.0, many_cores / mean) if many_cores and mean > 0 else 1.0


def stalled_for_memory(timeline: Timeline) -> Series:
    """Cores' worth of time that tasks waited for memory: the node's pressure is an average over its busy cores.

    kswapd's own work counts as waiting in /proc/pressure/memory, and is subtracted.
    """
    waiting = timeline.rate(WAITING)
    if not len(waiting):
        return waiting
    edges = np.append(waiting.at, waiting.until)
    threads = [it for it in timeline.subjects("thread_run_seconds_total") if it.startswith("thread:kswapd")]
    kswapd = risen_together(timeline, "thread_run_seconds_total", threads, edges)
    values = waiting.values * busy_cores(timeline, edges) - kswapd
    return replace(waiting, what="memory_stalled_cores", values=values)
