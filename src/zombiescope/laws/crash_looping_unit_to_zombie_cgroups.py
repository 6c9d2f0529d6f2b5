"""A run that leaves a page charged to its cgroup leaves the cgroup too, so N restarts of a unit leave N dying ones."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.census import count
from zombiescope.cgroups.unit_cgroups import left_behind
from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 600.0  # seconds: what pins dying cgroups may be freed late, and the count is then still high
FEWEST = 0.5  # more dying, or own ones still held, for each restart: some are freed at once
MOST = 2.0  # more dying for each restart: others on the node are removed at the same time
SURELY = 20  # own cgroups still held: the unit leaks although as many of others were freed meanwhile


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    census = next((it for it in count(timeline) if it.subject == effect.subject), None)
    if census is None or "memory" not in census.controllers:
        return
    own = left_behind(cause.subject, timeline) if timeline.looked("cgroup_releases_total") else None
    # Every removal and release was seen, so the unit is judged by its own cgroups: if none is left, it is cleared.
    if (own is not None and not own.stay) or (census.grown <= 0 and (own is None or own.held < SURELY)):
        return
    if own is not None:
        says = f"the kernel still holds {own.held:,.0f} of its own {own.removed:,.0f} removed cgroups"
        yield Ground(kind="place", says=says, evidence=own.evidence)
    restarts = timeline.series("unit_restarts_total", cause.subject)
    times = float(restarts.values[-1] - restarts.values[0]) if len(restarts) else 0.0
    if times and FEWEST <= census.grown / times <= MOST:
        says = f"{times:,.0f} restarts, {census.grown:,.0f} more dying"
        dying = (census.dying.first, census.dying.latest)
        yield Ground(kind="dose", says=says, evidence=(restarts.first, restarts.latest, *dying))
    elif times and own is not None and FEWEST <= own.held / times <= MOST:
        says = f"{times:,.0f} restarts, {own.held:,.0f} of its cgroups still held; others were freed meanwhile"
        yield Ground(kind="dose", says=says, evidence=(restarts.first, restarts.latest, *own.evidence))
