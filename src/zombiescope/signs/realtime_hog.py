"""A process or thread of real-time priority uses most of a core without a pause.

Why it hurts: it runs before everything of ordinary priority, until it sleeps: ksoftirqd and NAPI threads, kernel
    workers and programs on its core get what real-time throttling leaves them, 5 % of the time by default, and nothing
    where that is switched off. A packet waits as long as the hog runs.
False alarms: a poller that was given a core of its own on purpose (isolcpus, DPDK, audio). Interrupt, softirq and NAPI
    threads that were raised to real-time priority do the node's own work and are not called hogs.
References: sched(7); Documentation/scheduler/sched-rt-group.rst (throttling).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zombiescope.core import Blind, Finding, Reading, harmless, lasting, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.threads import unread_threads
from zombiescope.derived.waits import longest_waiter, waited_for_core

# Scale: a share of one core: the same on any node.
NEEDS = ("process_realtime_priority", "process_user_seconds_total", "process_system_seconds_total")
HOG = 0.5  # of a core: audio and control loops use a few percent, and a half-free core starves nobody for long
SECONDS = 2.0  # shorter bursts are start-up; a network driver gives up on a queue after five
_CORE = {"process": "process_cpu", "thread": "thread_realtime_cpu"}
_OWN_WORK = ("irq/", "ksoftirqd/", "napi/", "migration/", "rcu")


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    for kind, used in _realtime(timeline):
        for spell in used.runs(above=HOG, lasting=SECONDS):
            yield _finding(timeline, kind, spell)
    yield from unread_threads(timeline)


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """The busiest real-time process or thread, where none is a hog."""
    known = [used for _, used in _realtime(timeline) if not np.isnan(used.mean())]
    if not known:
        return "no real-time process is among the busiest", (timeline.looks(NEEDS[0]).latest,)
    most = max(known, key=lambda used: used.mean())
    ratio = most.figure("realtime_used_ratio")
    name = harmless(most.subject.partition(":")[2])
    return f"busiest of real-time priority: {name}, {percent(ratio.value)} of a core", (ratio,)


def _realtime(timeline: Timeline) -> Iterator[tuple[str, Series]]:
    """Processes and threads of real-time priority, without those that do the node's own work; how much each used."""
    for kind in _CORE:
        for subject in timeline.subjects(f"{kind}_realtime_priority"):
            if not subject.partition(":")[2].startswith(_OWN_WORK):
                yield kind, _used(timeline, kind, subject)


def _used(timeline: Timeline, kind: str, subject: str) -> Series:
    """How much of a core it used from each sample to the next, where it still had real-time priority then."""
    if kind == "process":
        user, system = (timeline.rate(what, subject) for what in NEEDS[1:])
        used = replace(user, values=user.values + system.values)
    else:
        used = timeline.rate("thread_realtime_seconds_total", subject)
    ends = np.append(used.at[1:], used.until) if len(used) else used.at
    priority = timeline.series(f"{kind}_realtime_priority", subject).sampled(ends)
    return replace(used, values=np.where(priority > 0, used.values, np.nan))


def _finding(timeline: Timeline, kind: str, spell: Series) -> Finding:
    priority = timeline.series(f"{kind}_realtime_priority", spell.subject).between(spell.span).latest
    core = timeline.series(_CORE[kind], spell.subject).between(spell.span)
    cpu = int(core.latest.value) if len(core) else None
    place = f" on cpu {cpu}" if cpu is not None else ""
    waiter = longest_waiter(timeline, cpu, spell.span, but=spell.subject) if cpu is not None else None
    return Finding(
        subject=spell.subject,
        span=spell.span,
        says=(
            f"used {percent(spell.mean())} of a core{place} at {priority.text or 'real-time priority'} "
            f"for {lasting(spell.span.seconds)}: nothing of lower priority can run there"
        ),
        evidence=(
            spell.figure("realtime_used_ratio"),
            priority,
            *([core.latest] if len(core) else []),
            *([waiter] if waiter else []),
        ),
        harm=_harm(timeline, spell, cpu),
    )


def _harm(timeline: Timeline, spell: Series, cpu: int | None) -> Harm:
    """Others can run on other cores: only who waits for this one is harmed."""
    waited = waited_for_core(timeline, cpu, spell.span, but=spell.subject) if cpu is not None else None
    within = (f"cpu:{cpu}",) if cpu is not None else ()
    burnt = Part(
        figure="burnt", who=spell.subject, amount=spell.mean(), span=spell.span, within=within, contended=waited
    )
    return Harm(parts=(burnt,))
