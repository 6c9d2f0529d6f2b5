"""A core's softirqs, and with them its network queues, wait to run or cannot be woken.

Why it hurts: packets stay in the card's rings until a softirq or a NAPI thread of that very core fetches them. A driver
    whose completions are not fetched for five seconds assumes that the card hangs and resets it; long before that,
    heartbeats come late.
False alarms: on a core that is busy with network traffic ksoftirqd waits while softirqs run all the time, at the end
    of interrupts and in the program that is sending. They are starved only where ksoftirqd waits far more than it runs
    and softirqs get hardly any of the core's time otherwise. CPU steal and idle time are not counted. On a node with
    more work than cores it waits for its turn like all others, and is reported only if it gets far less than they do.
References: Documentation/networking/napi.rst; `cat /proc/$(pgrep -x ksoftirqd/1)/schedstat`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from zombiescope.core import Finding, Reading, Span, lasting, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Floats, Series, Timeline
from zombiescope.derived.cores import fair_share
from zombiescope.derived.gaps import core_gaps
from zombiescope.derived.packet_work import dropped_packets
from zombiescope.derived.softirq_times import how_known

_RUN, _DELAY, _GAP = "thread_run_seconds_total", "thread_run_delay_seconds_total", "core_gap_seconds"
SYMPTOM = True
# Scale: shares of one core; with more runnable threads than cores what is fair, and so what is starved, becomes less.
NEEDS = ((_DELAY, _GAP),)
WAITING = 0.2  # seconds of waiting within a second: a healthy ksoftirqd waits for some milliseconds
OFTEN = 0.8  # of the time it wants to run: with one busy neighbour a fair scheduler makes it wait for half; on a node
# with more work than cores for longer, and then it must get less of its share by as much
RUNNING = 0.05  # of the core's time in softirqs: with more they do run, in whatever context, and ksoftirqd may wait
OFF = 0.2  # seconds with interrupts off within a second: the kernel aims at less than a thousandth
SECONDS = 2.0  # shorter periods show as one slow packet
BRIDGE = 2.0  # seconds: a pause between two walks does not split a period in two
_SERVES = re.compile(r"(?:ksoftirqd|irq_work|rcuc)/(\d+)")


@dataclass(frozen=True, slots=True)
class _Spell:
    """A stretch of time in which something that serves a core's packets could not run."""

    span: Span
    words: str
    evidence: tuple[Reading, ...]
    who: str  # the thread that waited; the core where interrupts were off
    waited: float  # seconds of each second


def find(timeline: Timeline) -> Iterator[Finding]:
    threads = _by_core(timeline)
    for cpu in sorted({*threads, *(int(it[4:]) for it in timeline.subjects(_GAP, "cpu"))}):
        spells = [it for thread in threads.get(cpu, []) for it in _waiting(timeline, thread)]
        spells += _interrupts_off(timeline, cpu)
        for group in _together(spells):
            span = Span(min(it.span.start for it in group), max(it.span.end for it in group))
            queues, served = _queues(timeline, cpu)
            timed, waits = how_known(timeline, f"cpu:{cpu}", span)
            squeezed = timeline.rate("softnet_squeezed_total", f"cpu:{cpu}", within=span)
            yield Finding(
                subject=f"cpu:{cpu}",
                span=span,
                says="starved its softirqs: " + "; ".join(filter(None, (*(it.words for it in group), served, timed))),
                evidence=(*(one for it in group for one in it.evidence), *waits, *queues, *_rate(squeezed)),
                harm=Harm(
                    parts=(
                        *(
                            Part(figure="waited", who=it.who, amount=it.waited, span=it.span, within=(f"cpu:{cpu}",))
                            for it in group
                        ),
                        *dropped_packets(timeline, f"cpu:{cpu}", span),
                    )
                ),
            )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    waits = [(timeline.rate(_DELAY, it).mean(), it) for threads in _by_core(timeline).values() for it in threads]
    if not waits:
        return "", tuple(timeline.latest(_GAP)[:4]) or (timeline.looks(_GAP).latest,)
    most, thread = max(waits)
    reading = timeline.series(_DELAY, thread).latest
    return f"{thread.removeprefix('thread:')} waited most: {most * 1e3:.1f} ms of each second", (reading,)


def _by_core(timeline: Timeline) -> dict[int, list[str]]:
    """Threads that serve a core's packets: its ksoftirqd, and NAPI threads by where they last ran."""
    found: dict[int, list[str]] = {}
    for thread in timeline.subjects(_DELAY, "thread"):
        name = thread.removeprefix("thread:")
        if own := _SERVES.fullmatch(name):
            found.setdefault(int(own[1]), []).append(thread)
        elif name.startswith("napi/") and len(ran := timeline.series("thread_cpu", thread)):
            found.setdefault(int(ran.latest.value), []).append(thread)
    return found


def _waiting(timeline: Timeline, thread: str) -> Iterator[_Spell]:
    delay, run = timeline.rate(_DELAY, thread), timeline.rate(_RUN, thread)
    if not len(delay):
        return
    ran = run.sampled(delay.at)
    wanted = delay.values + np.nan_to_num(ran)
    starved = replace(delay, values=np.where(delay.values >= OFTEN * wanted, delay.values, 0.0))
    own = _SERVES.fullmatch(thread.removeprefix("thread:"))
    for spell in starved.runs(above=WAITING, lasting=SECONDS, bridging=BRIDGE):
        if own and _softirq_time(timeline, int(own[1]), spell.span) >= RUNNING:
            continue
        waits, runs = delay.between(spell.span).mean(), run.between(spell.span).mean()
        if runs >= (1 - OFTEN) * min(1.0, 2 * fair_share(timeline, spell.span)) * (waits + runs):
            continue
        yield _Spell(
            spell.span,
            f"{thread.removeprefix('thread:')} waited {min(waits, 1.0):.2f} s of each second to run "
            f"and ran {runs:.3f} s, for {lasting(spell.span.seconds)}",
            tuple(
                Reading(what=what, subject=thread, value=round(value, 4), at=spell.span.start, source=delay.sources[0])
                for what, value in (("thread_run_delay_ratio", waits), ("thread_run_ratio", runs))
            ),
            thread,
            min(waits, 1.0),
        )


def _softirq_time(timeline: Timeline, cpu: int, span: Span) -> float:
    """How much of a core's time went into softirqs in the span; 0 where that was not sampled."""
    rate = timeline.rate("cpu_softirq_seconds_total", f"cpu:{cpu}", within=span)
    return float(np.nan_to_num(rate.mean())) if len(rate) else 0.0


def _interrupts_off(timeline: Timeline, cpu: int) -> Iterator[_Spell]:
    gaps = timeline.once(core_gaps, f"cpu:{cpu}")
    if not len(gaps):
        return
    start = float(np.floor(gaps.at[0]))
    seconds = np.arange(start, np.ceil(gaps.at[-1] + gaps.values[-1]) + 1)
    series = replace(
        gaps,
        at=seconds,
        values=_per_second(gaps, seconds),
        until=float(seconds[-1]),
        sources=gaps.sources[:1],
        texts={},
    )
    for spell in series.runs(above=OFF, lasting=SECONDS, bridging=BRIDGE):
        inside = (gaps.at >= spell.span.start) & (gaps.at < spell.span.end)
        longest = int(np.argmax(np.where(inside, gaps.values, 0.0)))
        yield _Spell(
            spell.span,
            f"interrupts were off for {percent(spell.mean())} of {lasting(spell.span.seconds)}, "
            f"up to {gaps.values[longest] * 1e3:.0f} ms at once",
            (
                replace(spell.first, what="core_gap_ratio", value=round(spell.mean(), 4)),
                gaps.reading(longest),
            ),
            f"cpu:{cpu}",
            min(spell.mean(), 1.0),
        )


def _per_second(gaps: Series, seconds: Floats) -> Floats:
    """Gap time in each second; a gap that reaches into the next second counts where it began."""
    place = np.searchsorted(seconds, gaps.at, side="right") - 1
    summed: Floats = np.bincount(place, weights=gaps.values, minlength=len(seconds)).astype(float)
    return summed


def _together(spells: list[_Spell]) -> Iterator[list[_Spell]]:
    """Periods that overlap are one finding: the same starvation, measured in two ways."""
    group: list[_Spell] = []
    for spell in sorted(spells, key=lambda it: it.span.start):
        if group and spell.span.start > max(it.span.end for it in group) + BRIDGE:
            yield group
            group = []
        group.append(spell)
    if group:
        yield group


def _queues(timeline: Timeline, cpu: int) -> tuple[tuple[Reading, ...], str]:
    if not timeline.looked("nic_irq_cpu"):
        return (), "the NIC queues it serves are not known"
    served = tuple(it for it in timeline.latest("nic_irq_cpu") if it.value == cpu)
    names = ", ".join(it.text for it in served[:4]) + (", …" if len(served) > 4 else "")
    return served[:4], f"it serves {names}" if served else "it serves no NIC queue"


def _rate(squeezed: Series) -> tuple[Reading, ...]:
    mean = squeezed.mean() if len(squeezed) else 0.0
    return (replace(squeezed.first, what="softnet_squeezed_per_second", value=round(mean, 3)),) if mean > 0 else ()
