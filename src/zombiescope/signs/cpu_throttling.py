"""A cgroup is throttled again and again by its CPU quota.

Why it hurts: every thread in it stops until the next period, 100 ms by default, whatever it was doing: requests
    and heartbeats time out, and only the cgroup's own file shows it. Where cores are idle, the quota withholds time
    that nobody uses; where none is, it withholds the cgroup's share of a full node, and the finding says so.
False alarms: a batch job that was given a small quota on purpose. Throttling is then what was asked for.
References: Documentation/scheduler/sched-bwc.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zombiescope.cgroups.owners import one_for_pod, owner, owners
from zombiescope.core import Finding, Reading, Span, lasting, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.cores import cores, fair_share, idle_cores

# Scale: shares of periods and of the quota: they grow with the cgroup, not with the node.
NEEDS = (
    "cgroup_throttled_seconds_total",
    "cgroup_throttled_periods_total",
    "cgroup_periods_total",
    "cpu_idle_seconds_total",
)
PERIODS = 0.25  # of all periods: fewer is an ordinary burst, and the share at which kubernetes-mixin warns
STOPPED = 0.1  # seconds a second: many periods may each be cut by a millisecond, which nobody notices
OF_QUOTA = 0.1  # of its quota: the kernel adds up all cores it runs on, so what nobody notices grows with its size
IDLE = 0.25  # of a core on the node, whatever its size: with less there is no idle time that the quota withholds
SECONDS = 3.0  # shorter is a program that uses its quota up while it starts


def find(timeline: Timeline) -> Iterator[Finding]:
    yield from one_for_pod(_throttled(timeline))


def _throttled(timeline: Timeline) -> Iterator[Finding]:
    for subject in timeline.subjects(NEEDS[2], "cgroup"):
        throttled = timeline.rate(NEEDS[0], subject)
        for spell in _share(timeline, subject).runs(above=PERIODS, lasting=SECONDS):
            stopped = throttled.between(spell.span).mean()
            if stopped < max(STOPPED, OF_QUOTA * _quota(timeline, subject)):
                continue
            idle, many = idle_cores(timeline, spell.span), cores(timeline)
            whose = owner(timeline, subject)
            free = f"while {idle:.1f} of {len(many)} cores were idle" if idle >= IDLE else "while no core was idle"
            yield Finding(
                subject=subject,
                span=spell.span,
                says=(
                    f"was throttled in {percent(spell.mean())} of its periods for {lasting(spell.span.seconds)} "
                    f"({stopped:.2f} s of each second) {free}" + (f"; owner: {whose}" if whose else "")
                ),
                evidence=(
                    spell.figure("cgroup_throttled_ratio"),
                    spell.figure("cgroup_throttled_seconds_per_second", stopped),
                    replace(
                        timeline.series(NEEDS[3], many[0]).first, what="cpu_idle_cores", subject="node", value=idle
                    ),
                    *owners(timeline, subject)[:1],
                ),
                harm=_harm(timeline, subject, spell.span, stopped, full=idle < IDLE),
            )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """The cgroup throttled most, where none is throttled much."""
    shares = [_share(timeline, subject) for subject in timeline.subjects(NEEDS[2], "cgroup")]
    known = [share for share in shares if not np.isnan(share.mean())]
    if not known:
        return "no cgroup used its quota", tuple(timeline.latest("cgroups_with_quota"))
    most = max(known, key=lambda share: share.mean())
    ratio = most.figure("cgroup_throttled_ratio")
    path = most.subject.removeprefix("cgroup:")
    return f"most throttled: {path}, in {percent(ratio.value)} of its periods", (ratio,)


def _harm(timeline: Timeline, subject: str, span: Span, stopped: float, *, full: bool) -> Harm:
    """Its threads are runnable while it is throttled: a core's queue is stopped only where it has some.

    Queues of idle cores are not stopped, so there are never more of them than cores that the quota had woken. On a
    full node it would have had to share: it lost its fair share of that time, not all of it.
    """
    waits = min(stopped, float(len(cores(timeline)))) * (fair_share(timeline, span) if full else 1.0)
    demand = waits + _quota(timeline, subject)
    return Harm(parts=(Part(figure="waited", who=subject, amount=waits, span=span, demand=demand),))


def _quota(timeline: Timeline, subject: str) -> float:
    """Cores; 0 where it is not known."""
    quota = timeline.series("cgroup_cpu_quota_cores", subject)
    return float(quota.latest.value) if len(quota) else 0.0


def _share(timeline: Timeline, subject: str) -> Series:
    """In what part of its periods it was throttled. A cgroup that does not run has no periods."""
    periods, throttled = timeline.rate(NEEDS[2], subject), timeline.rate(NEEDS[1], subject)
    if len(periods) != len(throttled):
        return replace(periods, values=np.full(len(periods), np.nan))
    return replace(throttled, values=throttled.values / np.where(periods.values > 0, periods.values, np.nan))
