"""A walk visits dying cgroups too: all of them before Linux 5.8, since 5.13 only those whose statistics changed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zombiescope.cgroups.census import Census, count
from zombiescope.core import Finding, Ground, Reading, percent
from zombiescope.core.timeline import Floats, Timeline
from zombiescope.derived.visits import late, most_for_live, visits_of
from zombiescope.knowledge.functions import shows
from zombiescope.knowledge.kernels import carries_fixes_back, fault, version_of

WITHIN = 600.0  # seconds: dying cgroups stay long after what made them
VISITING = 0.5  # of the walk: where most of it is opening and printing files, the number of cgroups is not the cost
DEAD = 0.5  # of all cgroups: where most of those visited are live, the dying ones are not the cost
FLUSHES = 3  # flushes with interrupts off that were sampled at their end: one may be something else
PARTS = 12  # of the recording: the cost in each is compared with the number of dying cgroups then
LEAST = 4  # timed reads: fewer follow anything
DOUBLED = 2.0  # times as many at the most as at the least: a smaller change does not show in the cost
FOLLOWS = 0.9  # correlation of the cost with their number
ANYWAY = 0.001  # seconds: what a read takes whatever it visits, with room for an interrupt
_READ, _MEMORY = "stat_read_cpu_seconds", "file:memory."


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    told = {it.what: it for it in effect.evidence}
    walk, visit = told.get("walk_sampled_seconds"), told.get("visit_sampled_seconds")
    census = next((it for it in count(timeline) if it.subject == cause.subject), None)
    if walk is None or visit is None or census is None or "memory" not in census.controllers:
        return
    share = census.dead / census.known if census.known else 0.0
    if visit.value < VISITING * walk.value or share < DEAD:
        return
    if _visits_all(visit, timeline):
        yield Ground(
            kind="mechanism",
            says=(
                f"seen in stacks: {percent(visit.value / walk.value)} of the walk is visits to cgroups, "
                f"{percent(share, 1)} of them dying"
            ),
            evidence=(visit, *census.evidence),
        )
    else:
        yield from _without_interrupts(effect, census, timeline)
    yield from _timed(census, timeline)
    yield from _over_time(effect, census, timeline)


def _visits_all(visit: Reading, timeline: Timeline) -> bool:
    """Whether the stacks are of the old walk, on a kernel that may have it: its functions are still in newer ones.

    Recordings of 0.1 do not say of which kernel they are: there any walk may be the old one.
    """
    if not len(timeline.looks("kernel_release")):
        return True
    release = timeline.series("kernel_release")
    version = version_of(release.latest.text) if len(release) else None
    newer = (
        version is not None
        and not carries_fixes_back(release.latest.text)
        and not fault("numa_stat_walk").is_in(version)
    )
    return not newer and shows(visit.text.split(";"), "cgroup_walk")


def _without_interrupts(effect: Finding, census: Census, timeline: Timeline) -> Iterator[Ground]:
    """A flush that keeps interrupts off for longer than all live cgroups can account for."""
    flushes = late(visits_of(timeline, effect.subject).within(effect.span))
    if len(flushes) < FLUSHES:
        return
    typical, live = float(np.median(flushes.weight_seconds)), most_for_live(timeline, census.live)
    if typical > live:
        yield Ground(
            kind="mechanism",
            says=(
                f"seen in stacks: one flush takes {typical * 1e3:.0f} ms with interrupts off; "
                f"{_against(census, typical, live)}"
            ),
            evidence=(flushes.reading(effect.subject, "visit_sampled_seconds"), *census.evidence),
        )


def _timed(census: Census, timeline: Timeline) -> Iterator[Ground]:
    """A timed read that costs more than all live cgroups can account for."""
    reads = [it for it in timeline.latest(_READ) if it.subject.startswith(_MEMORY)]
    worst = max(reads, key=lambda it: it.value, default=None)
    live = most_for_live(timeline, census.live)
    if worst is not None and worst.value > live + ANYWAY:
        yield Ground(
            kind="dose",
            says=f"one read took {worst.value * 1e3:.0f} ms; {_against(census, worst.value, live)}",
            evidence=(worst, *census.evidence),
        )


def _against(census: Census, seconds: float, live: float) -> str:
    each = seconds / max(census.dead, 1.0) * 1e6
    return f"{census.live:,.0f} live cgroups take {live * 1e3:.1f} ms at most; {each:.1f} µs for each dying one"


def _over_time(effect: Finding, census: Census, timeline: Timeline) -> Iterator[Ground]:
    """Whether the cost rose and fell with their number: of timed reads, or of the walker's own visits."""
    for file in (it for it in timeline.subjects(_READ) if it.startswith(_MEMORY)):
        reads = timeline.series(_READ, file)
        if len(reads) >= LEAST and _follows(reads.values, census.dying.sampled(reads.at)):
            says = f"over {len(reads)} reads of {file.removeprefix('file:')} the time follows their number"
            yield Ground(kind="dose", says=says, evidence=(reads.first, reads.latest, *census.evidence))
            return
    samples = visits_of(timeline, effect.subject)
    edges = np.linspace(census.dying.span.start, census.dying.span.end, PARTS + 1)
    spent = np.histogram(samples.at_seconds, edges, weights=samples.weight_seconds)[0]
    if _follows(spent, census.dying.sampled((edges[1:] + edges[:-1]) / 2)):
        says = (
            f"visits took {spent.min():.1f} to {spent.max():.1f} s in each twelfth of the recording, and follow "
            "their number"
        )
        evidence = (samples.reading(effect.subject, "visit_sampled_seconds"), census.dying.first, census.dying.latest)
        yield Ground(kind="dose", says=says, evidence=evidence)


def _follows(costs: Floats, numbers: Floats) -> bool:
    known = ~np.isnan(numbers)
    costs, numbers = costs[known], numbers[known]
    if len(numbers) < LEAST or numbers.max() < DOUBLED * max(numbers.min(), 1.0) or not costs.std():
        return False
    return bool(np.corrcoef(costs, numbers)[0, 1] >= FOLLOWS)
