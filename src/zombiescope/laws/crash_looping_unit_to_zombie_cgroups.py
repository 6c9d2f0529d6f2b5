"""A run that leaves a page charged to its cgroup leaves the cgroup too, so N restarts of a unit leave N dying ones."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from zombiescope.cgroups.census import count
from zombiescope.cgroups.doses import matches, rise_together
from zombiescope.cgroups.unit_cgroups import left_behind
from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Floats, Series, Timeline

WITHIN = 600.0  # seconds: what pins dying cgroups may be freed late, and the count is then still high
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
    counted = (restarts.first, restarts.latest, census.dying.first, census.dying.latest) if times else ()
    if matches(times, census.grown):
        yield Ground(kind="dose", says=f"{times:,.0f} restarts, {census.grown:,.0f} more dying", evidence=counted)
    elif times and (each := rise_together(partial(_restarted, restarts), census.dying)):
        says = f"{times:,.0f} restarts, {census.grown:,.0f} more dying: {each:.1f} for each, in all parts of the look"
        yield Ground(kind="dose", says=says, evidence=counted)
    elif own is not None and matches(times, own.held):
        says = f"{times:,.0f} restarts, {own.held:,.0f} of its cgroups still held; others were freed meanwhile"
        yield Ground(kind="dose", says=says, evidence=(restarts.first, restarts.latest, *own.evidence))


def _restarted(restarts: Series, at: Floats) -> Floats:
    return restarts.sampled(np.clip(at, restarts.at[0], restarts.until))
