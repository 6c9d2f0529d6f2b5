"""A process or kernel thread that wants to run waits for a core, and gets far less than its fair share.

Why it hurts: whatever waits for it waits too: a heartbeat is late, a grace period does not end, a job looks dead. No
    average shows it: the node may be half idle while one thread cannot run, because of its core or its cgroup's quota.
False alarms: a cgroup of very low weight on a full node starves as configured. A node with more work than cores is
    not reported as long as all get their turn; threads of low priority (nice, SCHED_IDLE) are not checked.
    ksoftirqd and NAPI threads have a sign of their own, starved_softirq.
References: sched_info_depart() in kernel/sched/stats.h: the time counts from becoming runnable to running.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zombiescope.core import Blind, Finding, Reading, harmless, lasting, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Floats, Series, Timeline
from zombiescope.derived.cores import fair_share
from zombiescope.derived.threads import unread_threads

_PROCESS, _THREAD = "process_run_delay_seconds_total", "thread_run_delay_seconds_total"
_TASK = "task_run_delay_seconds_total"  # a thread of a process, by turns
SYMPTOM = True
# Scale: shares of what one thread wanted; the fair share comes from cores and runnable threads.
NEEDS = ((_PROCESS, _THREAD, _TASK),)
WAITS = 0.5  # of the time: a thread that waits less makes progress; two that share a core fairly are just below
UNFAIR = 0.33  # of a fair share: the scheduler's own unfairness (weights of sessions, wake-ups) stays well above
SECONDS = 3.0  # shorter is a burst; heartbeats are missed after a few seconds
_SOFTIRQ = ("ksoftirqd/", "napi/", "rcuc/")


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    for waited in _followed(timeline):
        for spell in waited.runs(above=WAITS, lasting=SECONDS):
            ran = _ran(timeline, spell)
            got, fair = ran / (ran + spell.mean()), fair_share(timeline, spell.span)
            if got < UNFAIR * fair:
                yield _finding(timeline, spell, ran, got, fair)
    yield from unread_threads(timeline)


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """The process or thread that waited most, where none starved."""
    known = [series for series in _followed(timeline) if not np.isnan(series.mean())]
    if not known:
        looked = tuple(timeline.looks(what).latest for what in NEEDS[0] if timeline.looked(what))
        return "no waiting process was sampled twice", looked
    most = max(known, key=lambda series: series.mean())
    ratio = most.figure("run_delay_ratio")
    name = harmless(most.subject.partition(":")[2])
    return f"{name} waited most to run: {percent(ratio.value)} of the time", (ratio,)


def _followed(timeline: Timeline) -> Iterator[Series]:
    """How much each waited; a kernel thread that is followed both as a process and by its name counts once."""
    threads = {thread.removeprefix("thread:") for thread in timeline.subjects(_THREAD)}
    for what in (_THREAD, _PROCESS, _TASK):
        for subject in timeline.subjects(what):
            name = subject.partition(":")[2]
            known_by_name = what == _PROCESS and name.rpartition("[")[0] in threads
            if not known_by_name and not name.startswith(_SOFTIRQ):
                yield _waited(timeline, what, subject)


def _waited(timeline: Timeline, what: str, subject: str) -> Series:
    """What part of the time it waited, between one reading and the next.

    Only where no sample lies between them: for a thread that was not followed for a while, nothing says when it waited.
    """
    counter, looks = timeline.series(what, subject), timeline.looks(what)
    if len(counter) < 2:
        return replace(counter, values=np.full(len(counter), np.nan))
    begun = np.searchsorted(looks.at, counter.at)
    known = (np.diff(begun) <= 1) & (np.diff(counter.at) > 0)
    length: Floats = np.where(known, np.diff(counter.at), np.nan)
    return replace(
        counter,
        at=counter.at[:-1],
        values=np.minimum(np.diff(counter.values) / length, 1.0),  # the two clocks differ by a little
        until=float(counter.at[-1]),
        sources=counter.sources[-1:],
        texts={},
    )


def _ran(timeline: Timeline, spell: Series) -> float:
    """What part of that time it ran; where that was not sampled, all of the rest."""
    own = spell.what.replace("_run_delay_", "_run_")
    # What a process used is its threads' together; where its first thread's own time was not read, that must do.
    whats = (
        (own,)
        if len(timeline.series(own, spell.subject)) > 1
        else ("process_user_seconds_total", "process_system_seconds_total")
    )
    rates = [timeline.rate(what, spell.subject, within=spell.span) for what in whats]
    ran = sum(rate.mean() for rate in rates if len(rate))
    return float(ran) if any(map(len, rates)) and not np.isnan(ran) else max(0.0, 1.0 - spell.mean())


def _finding(timeline: Timeline, spell: Series, ran: float, got: float, fair: float) -> Finding:
    core, allowed, group = (
        timeline.series(what, spell.subject).between(spell.span)
        for what in ("task_cpu" if spell.what == _TASK else "process_cpu", "process_cpus_allowed", "process_in_cgroup")
    )
    bound = f"; it is bound to cpu {allowed.latest.text}" if len(allowed) and allowed.latest.value == 1 else ""
    return Finding(
        subject=spell.subject,
        span=spell.span,
        says=(
            f"waited to run {percent(spell.mean())} of {lasting(spell.span.seconds)} and ran {percent(ran)}: it got "
            f"{percent(got)} of the CPU time it wanted, where a fair share was {percent(fair)}{bound}"
        ),
        evidence=(
            spell.figure("run_delay_ratio"),
            spell.figure("run_ratio", ran),
            *(series.latest for series in (core, allowed, group) if len(series)),
        ),
        harm=_harm(spell, ran, fair, f"cgroup:{group.latest.text}" if len(group) else ""),
    )


def _harm(spell: Series, ran: float, fair: float, group: str) -> Harm:
    """What it should have run by its fair share, and did not."""
    wanted = ran + spell.mean()
    waited = Part(
        figure="waited",
        who=spell.subject,
        amount=max(fair * wanted - ran, 0.0),
        span=spell.span,
        within=(group,) if group else (),
        demand=wanted,
    )
    return Harm(parts=(waited,))
