"""A cgroup is throttled again and again by its CPU quota while cores of the node are idle.

Why it hurts: every thread in it stops until the next period, 100 ms by default, whatever it was doing: requests
    and heartbeats time out, and only the cgroup's own file shows it. The node looks idle, and is.
False alarms: a batch job that was given a small quota on purpose. Throttling is then what was asked for.
References: Documentation/scheduler/sched-bwc.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zombiescope.cgroups.owners import owner, owners
from zombiescope.core import Finding, Reading, Span, lasting, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.cores import cores, idle_cores

NEEDS = (
    "cgroup_throttled_seconds_total",
    "cgroup_throttled_periods_total",
    "cgroup_periods_total",
    "cpu_idle_seconds_total",
)
PERIODS = 0.25  # of all periods: fewer is an ordinary burst, and the share at which kubernetes-mixin warns
STOPPED = 0.1  # seconds a second: many periods may each be cut by a millisecond, which nobody notices
IDLE = 0.25  # of a core on the node: with less there is no idle time that the quota withholds
SECONDS = 3.0  # shorter is a program that uses its quota up while it starts


def find(timeline: Timeline) -> Iterator[Finding]:
    for subject in timeline.subjects(NEEDS[2], "cgroup"):
        throttled = timeline.rate(NEEDS[0], subject)
        for spell in _share(timeline, subject).runs(above=PERIODS, lasting=SECONDS):
            stopped = throttled.between(spell.span).mean()
            if stopped < STOPPED:
                continue
            idle, many = idle_cores(timeline, spell.span), cores(timeline)
            if idle >= IDLE:
                whose = owner(timeline, subject)
                yield Finding(
                    subject=subject,
                    span=spell.span,
                    says=(
                        f"was throttled in {percent(spell.mean())} of its periods for {lasting(spell.span.seconds)} "
                        f"({stopped:.2f} s of each second) while {idle:.1f} of {len(many)} cores were idle"
                        + (f"; owner: {whose}" if whose else "")
                    ),
                    evidence=(
                        spell.figure("cgroup_throttled_ratio", spell.mean()),
                        spell.figure("cgroup_throttled_seconds_per_second", stopped),
                        replace(
                            timeline.series(NEEDS[3], many[0]).first, what="cpu_idle_cores", subject="node", value=idle
                        ),
                        *owners(timeline, subject)[:1],
                    ),
                    harm=_harm(timeline, subject, spell.span, stopped),
                )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """The cgroup throttled most, where none is throttled while cores are idle."""
    shares = [_share(timeline, subject) for subject in timeline.subjects(NEEDS[2], "cgroup")]
    known = [share for share in shares if not np.isnan(share.mean())]
    if not known:
        return "no cgroup used its quota", tuple(timeline.latest("cgroups_with_quota"))
    most = max(known, key=lambda share: share.mean())
    ratio = most.figure("cgroup_throttled_ratio", most.mean())
    path = most.subject.removeprefix("cgroup:")
    return f"most throttled: {path}, in {percent(ratio.value)} of its periods", (ratio,)


def _harm(timeline: Timeline, subject: str, span: Span, stopped: float) -> Harm:
    """Its threads are runnable while it is throttled: a core's queue is stopped only where it has some.

    Queues of idle cores are not stopped, so there are never more of them than cores that the quota had woken.
    """
    quota = timeline.series("cgroup_cpu_quota_cores", subject)
    waits = min(stopped, float(len(cores(timeline))))
    demand = waits + (quota.latest.value if len(quota) else 0.0)
    return Harm(parts=(Part(figure="waited", who=subject, amount=waits, span=span, demand=demand),))


def _share(timeline: Timeline, subject: str) -> Series:
    """In what part of its periods it was throttled. A cgroup that does not run has no periods."""
    periods, throttled = timeline.rate(NEEDS[2], subject), timeline.rate(NEEDS[1], subject)
    if len(periods) != len(throttled):
        return replace(periods, values=np.full(len(periods), np.nan))
    return replace(throttled, values=throttled.values / np.where(periods.values > 0, periods.values, np.nan))
