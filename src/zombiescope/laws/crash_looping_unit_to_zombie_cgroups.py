"""A run that leaves a page charged to its cgroup leaves the cgroup too, so a unit restarted N times leaves N dead."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.census import count
from zombiescope.cgroups.unit_cgroups import families_of
from zombiescope.core import Finding, Ground, Reading
from zombiescope.core.timeline import Timeline

WITHIN = 600.0  # seconds: what pins the dead may be let go of late, and the count is then still high
KEPT = 0.5  # of the unit's cgroups that were removed: fewer is the ordinary delay between removal and release
FEWEST = 0.5  # dead more for each restart, where releases cannot be seen: some are let go of at once
MOST = 2.0  # and others on the node die meanwhile


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    census = next((it for it in count(timeline) if it.subject == effect.subject), None)
    if census is None or "memory" not in census.controllers or census.grown <= 0:
        return
    restarts = timeline.series("unit_restarts_total", cause.subject)
    times = float(restarts.values[-1] - restarts.values[0]) if len(restarts) else 0.0
    traced = timeline.looked("cgroup_releases_total")
    if traced:
        # Every removal and release was seen, so the unit is judged by its own cgroups: one that leaves none is cleared.
        removals, releases = (_latest(cause.subject, what, timeline) for what in ("removals", "releases"))
        removed = sum(it.value for it in removals)
        kept = removed - sum(it.value for it in releases)
        if not removals or kept < KEPT * removed:
            return
        says = f"{kept:,.0f} of its own {removed:,.0f} cgroups that were removed were not released"
        yield Ground(kind="place", says=says, evidence=(*removals, *releases))
    if times and (traced or FEWEST <= census.grown / times <= MOST):
        yield Ground(
            kind="dose",
            says=f"{times:,.0f} restarts, {census.grown:,.0f} more dead",
            evidence=(restarts.first, restarts.latest, census.dying.first, census.dying.latest),
        )


def _latest(unit: str, what: str, timeline: Timeline) -> list[Reading]:
    name = f"cgroup_{what}_total"
    return [timeline.series(name, family).latest for family in families_of(unit, name, timeline)]
