"""A walk through all cgroups visits the dying ones too, so its time goes into visits and grows with their number."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.census import count
from zombiescope.core import Finding, Ground, percent
from zombiescope.core.timeline import Timeline

WITHIN = 600.0  # seconds: dying cgroups stay long after what made them
VISITING = 0.5  # of the walk: where most of it is opening and printing files, the number of cgroups is not the cost
DEAD = 0.5  # of all cgroups: where most of those visited are live, the dying ones are not the cost


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    told = {it.what: it for it in effect.evidence}
    walk, visit = told.get("walk_sampled_seconds"), told.get("visit_sampled_seconds")
    census = next((it for it in count(timeline) if it.subject == cause.subject), None)
    if walk is None or visit is None or census is None or "memory" not in census.controllers:
        return
    share = census.dead / census.known if census.known else 0.0
    if visit.value >= VISITING * walk.value and share >= DEAD:
        yield Ground(
            kind="mechanism",
            says=(
                f"seen in stacks: {percent(visit.value / walk.value)} of the walk is visits to cgroups, "
                f"{percent(share, 1)} of them dying"
            ),
            evidence=(visit, *census.evidence),
        )
    spent = [it for it in timeline.latest("stat_read_cpu_seconds") if it.value / max(census.known, 1) >= 0.3e-6]
    if spent and census.dead >= 1000:
        worst = max(spent, key=lambda it: it.value)
        yield Ground(
            kind="dose",
            says=f"one read took {worst.value * 1e3:.0f} ms, {worst.value / census.known * 1e6:.1f} µs for each cgroup",
            evidence=(worst, *census.evidence),
        )
