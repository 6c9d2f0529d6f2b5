"""A run that leaves a page charged to its cgroup leaves the cgroup too, so N restarts of a unit leave N dying ones."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.census import count
from zombiescope.cgroups.unit_cgroups import left_behind
from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 600.0  # seconds: what pins dying cgroups may be freed late, and the count is then still high
FEWEST = 0.5  # more dying for each restart, where releases cannot be seen: some are freed at once
MOST = 2.0  # more dying for each restart: others on the node are removed at the same time


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    census = next((it for it in count(timeline) if it.subject == effect.subject), None)
    if census is None or "memory" not in census.controllers or census.grown <= 0:
        return
    restarts = timeline.series("unit_restarts_total", cause.subject)
    times = float(restarts.values[-1] - restarts.values[0]) if len(restarts) else 0.0
    traced = timeline.looked("cgroup_releases_total")
    if traced:
        # Every removal and release was seen, so the unit is judged by its own cgroups: if none is left, it is cleared.
        own = left_behind(cause.subject, timeline)
        if not own.stay:
            return
        says = f"the kernel still holds {own.held:,.0f} of its own {own.removed:,.0f} removed cgroups"
        yield Ground(kind="place", says=says, evidence=own.evidence)
    if times and (traced or FEWEST <= census.grown / times <= MOST):
        yield Ground(
            kind="dose",
            says=f"{times:,.0f} restarts, {census.grown:,.0f} more dying",
            evidence=(restarts.first, restarts.latest, census.dying.first, census.dying.latest),
        )
