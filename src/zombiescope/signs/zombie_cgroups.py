"""Dying cgroups: their folders are gone, but the kernel still holds them.

Why it hurts: each holds memory (about 12.5 KB, and 2 KB for each possible core), its ancestor is charged for it, and
    whatever walks all cgroups visits the dying ones too: reclaim, the flush of statistics with interrupts off and,
    before Linux 5.8, every read of a root `memory.numa_stat` (70 µs each: 70,000 of them hold a core for 5 s).
False alarms: a burst of pods just deleted drains within minutes. A dozen or so always remain (metadata pages of the
    journal, per-CPU charge stocks): that is residue, not a leak. Count is not severity: a large count with cheap
    reads and no growth costs memory and nothing else.
References: kernel commit ec39225cca42 (nr_dying_descendants); "memcg: optimize memory.numa_stat like memory.stat" (in
    v5.8); Linux 7.1 gives the pages of a dying memory cgroup to its parent, which ends the most common leak.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zombiescope.cgroups.census import Census, bytes_each, bytes_held, count, uncounted
from zombiescope.cgroups.owners import owner, owners
from zombiescope.cgroups.unit_cgroups import freed
from zombiescope.core import Blind, Check, Finding, Reading, Span, amount, lasting, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.model import SLACK
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.growth import first_of, reaches
from zombiescope.derived.kernel_log import lines_of

LEFT_BEHIND = True  # stopping the leak does not free them: they must not grow, and a remedy of their own frees them
NEXT = "zombiescope census --names"
# Scale: MANY grows with live cgroups, so with pods; the cost grows with cores (bytes_each), and harm weighs it.
NEEDS = (("cgroup_folders", "cgroup_dying_descendants"),)
MANY = 1000  # a full node of 110 pods has a few hundred live cgroups; more dying ones than that are no residue
OF_LIVE = 2.0  # times the live ones: what pods that come and go leave for some minutes grows with the number of pods
FEW = 100  # below this even growth is pods that start and stop as usual
GROWTH = 20  # so many more within one recording, never fewer: an active leak, long before there are MANY
RESIDUE = 14  # these come and stay without any leak: metadata of the journal, charges kept on each core
PAUSE, PAUSES = 60.0, 3.0  # seconds, and times the usual, without a new one: then the leak has stopped
TROUBLE = 70_000  # this many held a core for 5 s in one read of statistics, and the network driver reset the card


def find(timeline: Timeline) -> Iterator[Finding | Blind]:
    counted = count(timeline)
    if not counted:
        yield Blind(
            what="cgroups_dying", source="/proc/cgroups", why="neither folders nor the kernel show how many are dying"
        )
    for census in counted:
        steady = bool((census.dying.values[1:] >= census.dying.values[:-1]).all())
        many = max(MANY, OF_LIVE * census.live)
        refused, _ = _logged(timeline) if "memory" in census.controllers else ((), ())
        if (
            census.dead >= many
            or (refused and census.dead >= FEW)
            or (census.dead >= FEW and census.grown >= GROWTH and steady)
        ):
            yield _finding(census, timeline, census.dying.span if census.dead >= many else _growing(census, timeline))
    for controller in uncounted(timeline):
        known = timeline.series("cgroups_known", f"controller:{controller}").latest
        if known.value >= FEW:  # fewer in total cannot hide a leak
            yield Blind(
                what="cgroup_folders",
                source=known.source,
                why=f"{known.value:,.0f} {controller} cgroups, live and dying not counted separately",
            )


def there_is(timeline: Timeline) -> Iterator[Finding]:
    """What a person may want to cure although it is not many: more than the residue that every node has."""
    for census in count(timeline):
        if census.dead > RESIDUE:
            yield _finding(census, timeline, census.dying.span)


def _finding(census: Census, timeline: Timeline, span: Span) -> Finding:
    memory = "memory" in census.controllers
    whose, leaked = _latest(timeline) if memory else ("", ())
    refused, stuck = _logged(timeline) if memory else ((), ())
    return Finding(
        subject=census.subject,
        span=span,
        says=", ".join([f"include {_counted(census)}", *_held(census, timeline), *_pace(census, timeline)])
        + whose
        + f"; {len(refused):,} new cgroups were refused" * bool(refused)
        + f"; {len(stuck):,} could not be removed" * bool(stuck),
        evidence=(
            *census.evidence,
            *_grown_from(census),
            *_memory(census, timeline),
            *leaked,
            *refused[-1:],
            *stuck[-1:],
        ),
        harm=_harm(census, timeline, refused),
    )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """What was counted where there is nothing to report."""
    counted = sorted(count(timeline), key=lambda census: census.dead, reverse=True)
    if not counted:
        return "", ()
    return f"{'/'.join(counted[0].controllers)} cgroups include {_counted(counted[0])}", counted[0].evidence


def does_not_grow(before: Timeline, after: Timeline) -> Check:
    """After a fix of their cause: whether there are no more of them than ordinary residue."""
    name = "dying memory cgroups do not grow"
    earlier, later = _memory_census(before), _memory_census(after)
    if later is None or len(later.dying) < 2:
        return Check(name=name, state="blind", says="they were not counted twice")
    values = later.dying.values
    quarter = max(len(values) // 4, 1)
    rise = float(np.median(values[-quarter:]) - np.median(values[:quarter]))
    seconds = float(later.dying.at[-1] - later.dying.at[0])
    pace = earlier.growth_per_hour / 3600 if earlier is not None else 0.0
    # A slow leak must show too: half of what the pace before would have brought is too much.
    most = max(2.0, min(RESIDUE, pace * seconds / 2)) if pace > 0 else RESIDUE
    was = f"{earlier.dead:,.0f} at {earlier.growth_per_hour:+,.0f} an hour" if earlier is not None else "not counted"
    return Check(
        name=name,
        state="held" if rise <= most else "failed",
        says=f"before {was}, after {later.dead:,.0f}: {rise:+,.0f} in {lasting(seconds)}",
        before=earlier.dying.latest if earlier is not None else None,
        after=later.dying.latest,
    )


def curves(timeline: Timeline) -> Iterator[tuple[str, str, Series]]:
    """For the page: how many there were, over time."""
    for census in count(timeline)[:1]:
        yield "dying cgroups", "", replace(census.dying, subject=census.subject)


def _memory_census(timeline: Timeline) -> Census | None:
    return next((census for census in count(timeline) if "memory" in census.controllers), None)


def _counted(census: Census) -> str:
    share = census.dead / census.known if census.known else 0.0
    return (
        f"{census.dead:,.0f} dying ones still held by the kernel, {percent(share, 1)} of all ({census.live:,.0f} live)"
    )


def _held(census: Census, timeline: Timeline) -> Iterator[str]:
    if "memory" in census.controllers:
        yield f"holding about {amount(bytes_held(timeline, census.dead))} of kernel memory"


def _pace(census: Census, timeline: Timeline) -> Iterator[str]:
    uptime = timeline.series("uptime_seconds")
    if census.grown > 0:
        yield f"{census.grown:,.0f} more in {lasting(census.dying.span.seconds)}"
        yield from _until_trouble(census, timeline, census.growth_per_hour)
    elif len(census.dying) > 1:
        yield f"no more in {lasting(census.dying.span.seconds)}"
    if len(uptime):
        yield f"{census.dead / max(uptime.latest.value / 3600, 1e-3):,.0f} an hour since boot"


def _latest(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """The owner of those removed during the recording and still held by the kernel: the family with most of them."""
    if not timeline.looked("cgroup_releases_total"):
        return "", ()
    kept = {}
    for subject in timeline.subjects("cgroup_removals_total"):
        removed = timeline.counted("cgroup_removals_total", subject)
        kept[removed] = removed.value - sum(it.value for it in freed(timeline, subject))
    most = max(kept, key=lambda removed: kept[removed], default=None)
    if most is None or kept[most] < GROWTH:
        return "", ()
    whose = owner(timeline, most.subject) or most.subject.removeprefix("family:")
    return f"; the last {kept[most]:,.0f} belonged to {whose}", (most, *owners(timeline, most.subject)[:1])


def _until_trouble(census: Census, timeline: Timeline, per_hour: float) -> Iterator[str]:
    """When it will hurt at this pace: enough that a walk takes seconds, or no memory left to hold them."""
    limits = {f"there are {TROUBLE:,}": (TROUBLE - census.dead) / per_hour}
    available = timeline.series("memory_available_bytes")
    if "memory" in census.controllers and len(available):
        limits["no memory is left"] = available.latest.value / bytes_each(timeline) / per_hour
    what, hours = min(limits.items(), key=lambda limit: limit[1])
    if hours > 0:
        yield f"at this pace {what} in {lasting(hours * 3600)}"


def _logged(timeline: Timeline) -> tuple[tuple[Reading, ...], tuple[Reading, ...]]:
    """During the recording: lines about new cgroups that the kernel refused, and about old ones that stayed."""
    lines = [it for it in lines_of(timeline, "cgroup_exhausted", "cgroup_stuck") if timeline.span.holds(it.reading.at)]
    refused = tuple(it.reading for it in lines if "path" in it.message.fields)
    return refused, tuple(it.reading for it in lines if it.message.kind == "cgroup_stuck")


def _harm(census: Census, timeline: Timeline, refused: tuple[Reading, ...]) -> Harm:
    """The memory they hold, cgroups that were refused, and when they hurt at this pace: see _until_trouble."""
    grows = Harm()
    limits = [reaches(timeline, census.dying, TROUBLE, least=GROWTH, called=f"{TROUBLE:,} dying cgroups")]
    if "memory" in census.controllers:
        held = bytes_held(timeline, census.dead)
        grows = Harm(parts=(Part(figure="held", who=census.subject, amount=held, span=census.dying.span),))
        available = timeline.series("memory_available_bytes")
        if len(available):
            most = census.dead + available.latest.value / bytes_each(timeline)
            limits.append(reaches(timeline, census.dying, most, least=GROWTH, called="no memory is left"))
    if refused:
        span = Span(refused[0].at, refused[-1].at)
        lost = Part(figure="broken", kind="refused", who=census.subject, amount=len(refused), span=span)
        grows = replace(grows, parts=(*grows.parts, lost))
    return first_of(*limits).added_to(grows)


def _growing(census: Census, timeline: Timeline) -> Span:
    """Few of them, but ever more: from when they come without a pause, and are more than residue, until no more come.

    So a leak that begins while somebody looks is not older than its cause. One that the second look shows may have
    been there before the first.
    """
    dying = census.dying
    rises = np.flatnonzero(np.diff(dying.values) > 0) + 1
    times, looks = dying.at[rises], timeline.look_times(census.evidence[0].what)
    usual = float(np.median(np.diff(times))) if len(times) > 1 else 0.0
    start, second = float(dying.at[0]), float(looks[1]) if len(looks) > 1 else 0.0
    for group in np.split(rises, np.flatnonzero(np.diff(times) > PAUSES * usual) + 1):
        if dying.values[group[-1]] - dying.values[group[0] - 1] > RESIDUE:
            began = float(dying.at[group[0]])
            start = began if began > second + SLACK else start
            break
    return Span(start, min(float(times[-1]) + max(PAUSE, PAUSES * usual), dying.until))


def _grown_from(census: Census) -> tuple[Reading, ...]:
    return (census.dying.first, census.dying.latest) if census.grown > 0 else ()


def _memory(census: Census, timeline: Timeline) -> Iterator[Reading]:
    if "memory" in census.controllers:
        for what in ("memory_percpu_bytes", "memory_slab_unreclaimable_bytes", "cpus_possible"):
            if len(series := timeline.series(what)):
                yield series.latest
