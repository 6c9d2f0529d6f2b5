"""Cgroups of one family are made and removed again and again: something restarts, whatever its unit says.

Why it hurts: every restart makes a cgroup, and one that is charged for a page that outlives it stays behind as a dying
    cgroup. A supervisor that restarts a container inside a healthy unit shows nowhere else: the unit stays active and
    its restart counter stays at 0.
    Restarts that systemd itself counts are not reported here again: see crash_looping_unit.
False alarms: a build or batch system that runs a container for each step; a timer that fires every few seconds. That
    may be what they are for: churn that leaves no dying cgroups is reported only above one a second.
References: include/trace/events/cgroup.h.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zombiescope.cgroups.census import bytes_each, count
from zombiescope.cgroups.families import family
from zombiescope.cgroups.owners import owner, owners
from zombiescope.cgroups.unit_cgroups import freed
from zombiescope.core import Blind, Finding, Reading, Span
from zombiescope.core.harm import Harm, Part
from zombiescope.core.model import SLACK
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.cores import cores
from zombiescope.derived.waits import waited_anywhere
from zombiescope.knowledge.functions import shows

# Scale: TIMES and PER_MINUTE are of one family, as one agent makes them; FAST grows with cores.
NEEDS = ("cgroup_births_total", "cgroup_removals_total")
TIMES = 20  # made and removed within one recording: fewer is a rollout, a batch of jobs or a person at work
NAMED = 3  # containers of one family, as evidence of who owns them
SAME = 0.5  # of the times: systemd is asked less often than cgroups are watched
PER_MINUTE = 4.0  # a supervisor that backs off to 15 s still makes four; kubelet backs off to minutes
FAST = 60.0  # a minute: this many cost CPU even if none stays behind; a busy CI node starts about thirty
FOR_CORE = 2.0  # a minute for each core: a larger node starts more, and has the cores for it
KEPT = 0.5  # of those removed still held by the kernel: fewer is the ordinary delay before the kernel frees them


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    for subject in timeline.subjects(NEEDS[0], "family"):
        if not len(timeline.series(NEEDS[1], subject)):
            continue
        births, removals = (timeline.counted(what, subject) for what in NEEDS)
        times = min(births.value, removals.value)
        minutes = timeline.looks(NEEDS[0]).span.seconds / 60
        releases = freed(timeline, subject)
        # A cgroup removed before the recording may be freed during it.
        left = max(removals.value - sum(it.value for it in releases), 0)
        fast = max(FAST, FOR_CORE * len(cores(timeline)))
        least = PER_MINUTE if left >= KEPT * removals.value else fast
        if times >= TIMES and minutes and times / minutes >= least and not _counted(timeline, subject, times):
            whose = owner(timeline, subject)
            span = _span(timeline, timeline.series(NEEDS[0], subject), times / minutes)
            kept = f", {left:,.0f} still held by the kernel (dying)" if timeline.looked("cgroup_releases_total") else ""
            yield Finding(
                subject=subject,
                span=span,
                says=(
                    f"came and went {times / minutes:,.0f} times a minute: {births.value:,.0f} made, "
                    f"{removals.value:,.0f} removed{kept}" + (f"; owner: {whose}" if whose else "")
                ),
                evidence=(
                    births,
                    removals,
                    *releases,
                    *owners(timeline, subject)[:NAMED],
                ),
                harm=_harm(timeline, subject, span, left),
            )

    if not timeline.looked("cgroup_releases_total"):
        refused = timeline.looks("cgroup_releases_total").latest
        why = f"{refused.text}; names are compared once a second instead, and cgroups that live shorter are missed"
        yield Blind(what=NEEDS[0], source=refused.source, why=why)


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """The family that was made most often, where none churns."""
    made = (timeline.counted(NEEDS[0], it) for it in timeline.subjects(NEEDS[0], "family"))
    births = sorted((it for it in made if it.value), key=lambda reading: reading.value, reverse=True)
    looked = timeline.looks(NEEDS[0]).latest
    if not births:
        return f"no cgroup was made in {timeline.looks(NEEDS[0]).span.seconds:.0f} s", (looked,)
    return f"most often made: {births[0].subject.removeprefix('family:')}, {births[0].value:,.0f} times", (births[0],)


def _harm(timeline: Timeline, subject: str, span: Span, left: float) -> Harm:
    """What it left behind, and the CPU time of making and removing cgroups; how the dying grow, zombie_cgroups says."""
    unknown = [] if count(timeline) else ["soon"]
    parts = []
    if left:
        held = left * bytes_each(timeline)
        parts.append(Part(figure="held", who=subject, amount=held, span=span, within=("controller:memory",)))
    if timeline.looked("samples_total", 2):
        made = timeline.samples(span, wanted=lambda it: shows(it, "cgroup_making"))
        spent = made.seconds / max(span.seconds, 1.0)
        waited = waited_anywhere(timeline, span, spent=spent)
        parts.append(Part(figure="burnt", who=subject, amount=spent, span=span, contended=waited))
    else:
        unknown.append("burnt")
    return Harm(parts=tuple(parts), unknown=tuple(unknown))


def _counted(timeline: Timeline, subject: str, times: float) -> bool:
    """Whether it is a unit's own cgroup and systemd counts the same restarts."""
    for unit in timeline.subjects("unit_restarts_total", "unit"):
        restarts, group = timeline.series("unit_restarts_total", unit), timeline.series("unit_cgroup", unit)
        restarted = float(restarts.values[-1] - restarts.values[0])
        if restarted >= SAME * times and len(group) and subject == f"family:{family(group.latest.text)}":
            return True
    return False


def _span(timeline: Timeline, births: Series, per_minute: float) -> Span:
    """From the first birth; but if that came no later than one was due, the churn began before the recording."""
    looks = timeline.looks(NEEDS[0]).at
    began, due = float(looks[0]), float(looks[0]) + 2 * 60 / per_minute
    seen = float(looks[min(int(np.searchsorted(looks, due)), len(looks) - 1)])  # by the next sample
    return Span(began if births.at[0] <= max(seen, due) + SLACK else float(births.at[0]), births.until)
