"""A cgroup is stopped again and again because its CPU quota is used up, while cores of the node idle.

Why it hurts: every thread in it stands still until the next period, 100 ms by default, whatever it was doing: requests
    and heartbeats time out, and nothing but the cgroup's own file says so. The node looks idle, and is.
False alarms: a batch job that was given a small quota on purpose. That it is stopped is then what was asked for.
References: Documentation/scheduler/sched-bwc.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zombiescope.cgroups.owners import owner, owners
from zombiescope.core import Finding, Reading, lasting
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.cores import cores, idle_cores

NEEDS = (
    "cgroup_throttled_seconds_total",
    "cgroup_throttled_periods_total",
    "cgroup_periods_total",
    "cpu_idle_seconds_total",
)
PERIODS = 0.25  # of all periods: fewer is an ordinary burst, and the share at which kubernetes-mixin warns
STOPPED = 0.1  # seconds a second: many periods may each be cut by a millisecond, which nobody feels
IDLE = 0.25  # of a core on the node: with less there is nothing the quota keeps from it
SECONDS = 3.0  # a program that starts uses its quota up, and is done


def find(timeline: Timeline) -> Iterator[Finding]:
    for subject in timeline.subjects(NEEDS[2], "cgroup"):
        for spell in _share(timeline, subject).runs(above=PERIODS, lasting=SECONDS):
            stopped = timeline.rate(NEEDS[0], subject).between(spell.span).mean()
            idle, many = idle_cores(timeline, spell.span), cores(timeline)
            if stopped >= STOPPED and idle >= IDLE:
                whose = owner(timeline, subject)
                yield Finding(
                    subject=subject,
                    span=spell.span,
                    says=(
                        f"stopped in {spell.mean():.0%} of its periods, {stopped:.2f} s a second, "
                        f"for {lasting(spell.span.seconds)}; {idle:.1f} of {len(many)} cores idled meanwhile"
                        + (f": {whose}" if whose else "")
                    ),
                    evidence=(
                        spell.figure("cgroup_throttled_ratio", spell.mean()),
                        spell.figure("cgroup_throttled_seconds_per_second", stopped),
                        replace(
                            timeline.series(NEEDS[3], many[0]).first, what="cpu_idle_cores", subject="node", value=idle
                        ),
                        *owners(timeline, subject)[:1],
                    ),
                )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """The one that was stopped most, where none is kept from idle cores."""
    shares = [_share(timeline, subject) for subject in timeline.subjects(NEEDS[2], "cgroup")]
    known = [share for share in shares if not np.isnan(share.mean())]
    if not known:
        return "no cgroup used its quota", tuple(timeline.latest("cgroups_with_quota"))
    most = max(known, key=lambda share: share.mean())
    ratio = most.figure("cgroup_throttled_ratio", most.mean())
    return f"most: {most.subject.removeprefix('cgroup:')} in {ratio.value:.0%} of its periods", (ratio,)


def _share(timeline: Timeline, subject: str) -> Series:
    """In what part of its periods it was stopped. One that does not run has no periods."""
    periods, throttled = timeline.rate(NEEDS[2], subject), timeline.rate(NEEDS[1], subject)
    if len(periods) != len(throttled):
        return replace(periods, values=np.full(len(periods), np.nan))
    return replace(throttled, values=throttled.values / np.where(periods.values > 0, periods.values, np.nan))
