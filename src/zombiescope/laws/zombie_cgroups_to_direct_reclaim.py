"""Reclaim goes from cgroup to cgroup, dying ones too, so it takes longer the more dying cgroups there are."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.families import family
from zombiescope.core import Finding, Ground, Reading, percent
from zombiescope.core.timeline import Timeline
from zombiescope.knowledge.functions import shows

WITHIN = 600.0  # seconds: dying cgroups stay, and every later reclaim visits them
FEWEST = 100  # dying below the cgroup: a pass over fewer takes less time than the work on one page
CHEAPEST, DEAREST = 0.01e-6, 1e-6  # seconds for each dying cgroup and hit: 0.04 µs measured at a limit, 0.8 µs a pass
STEPPING = 0.5  # of the time in reclaim spent between pages, not on them: a fifth where there are no dying cgroups
OUTNUMBERED = 10.0  # dying for each live cgroup: with fewer, the live ones may take the time


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    dead = next((it for it in cause.evidence if it.what in ("cgroups_known", "cgroup_dying_subsys")), None)
    if "memory" not in cause.subject or dead is None:
        return
    below = _dead_below(effect, timeline)
    if below is not None:
        yield Ground(kind="place", says=f"{below.value:,.0f} dying below {effect.subject[7:]}", evidence=(below, dead))
        yield from _dose(effect, below)
    yield from _mechanism(effect, timeline, dead)


def _dead_below(effect: Finding, timeline: Timeline) -> Reading | None:
    """How many dying cgroups are below it: v2 counts them; else those removed in the recording and still held."""
    told = timeline.series("cgroup_dead_below", effect.subject)
    if len(told):
        return told.latest if told.latest.value >= FEWEST else None
    if not effect.subject.startswith("cgroup:/"):
        return None
    parent = "family:" + family(effect.subject.removeprefix("cgroup:")).rstrip("/") + "/"
    removed, released = (
        [timeline.counted(what, it) for it in timeline.subjects(what) if it.startswith(parent)]
        for what in ("cgroup_removals_total", "cgroup_releases_total")
    )
    kept = sum(it.value for it in removed) - sum(it.value for it in released)
    return next((it for it in removed if kept >= it.value / 2), None)


def _dose(effect: Finding, below: Reading) -> Iterator[Ground]:
    """Only where all dying cgroups below are counted: those removed during the recording are only some of them."""
    stalled = next(
        (it for it in effect.evidence if it.what.startswith(("memory_stalled", "cgroup_memory_stall"))), None
    )
    hits = next((it for it in effect.evidence if it.what == "cgroup_limit_hits_per_second"), None)
    if below.what != "cgroup_dead_below" or stalled is None or hits is None or hits.value <= 0:
        return
    each = stalled.value / hits.value
    if CHEAPEST <= each / below.value <= DEAREST:
        says = (
            f"{each * 1e6:,.0f} µs for each hit of the limit, {each / below.value * 1e6:.2f} µs for each dying cgroup"
        )
        yield Ground(kind="dose", says=says, evidence=(stalled, hits, below))


def _mechanism(effect: Finding, timeline: Timeline, dead: Reading) -> Iterator[Ground]:
    live = next((it for it in timeline.latest("cgroup_folders") if it.subject == "controller:memory"), None)
    reclaim = timeline.samples(effect.span, wanted=lambda it: shows(it, "direct_reclaim", "background_reclaim"))
    stepping = reclaim.where(lambda frames: not shows(frames, "reclaim_pages"))
    outnumbered = live is None or dead.value >= OUTNUMBERED * live.value
    if outnumbered and len(stepping) and stepping.seconds >= STEPPING * reclaim.seconds:
        yield Ground(
            kind="mechanism",
            says=(
                f"seen in stacks: {percent(stepping.seconds / reclaim.seconds)} of reclaim is stepping from cgroup to "
                f"cgroup, of which there are {dead.value:,.0f}" + (f" ({live.value:,.0f} live)" if live else "")
            ),
            evidence=(stepping.reading(effect.subject, "stepping_sampled_seconds"), dead, *([live] if live else [])),
        )
