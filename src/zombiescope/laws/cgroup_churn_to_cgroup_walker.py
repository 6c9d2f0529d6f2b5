"""Who watches the cgroup tree looks at each new folder, so folders that come and go keep it busy with their files."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 5.0  # seconds: a watcher looks at once
PER_SECOND = 5.0  # births: fewer are not worth a twentieth of a core at some milliseconds each
OPENING = 0.5  # of the walk: where most of it is visits, it is the number of cgroups and not their coming and going


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    told = {it.what: it for it in effect.evidence}
    walk, visit = told.get("walk_sampled_seconds"), told.get("visit_sampled_seconds")
    births = timeline.series("cgroup_births_total", cause.subject)
    length = timeline.looks("cgroup_births_total").span.seconds
    if walk is None or not len(births) or not length:
        return
    pace = births.latest.value / length
    opening = walk.value - (visit.value if visit else 0.0)
    if pace >= PER_SECOND and opening >= OPENING * walk.value:
        yield Ground(
            kind="dose",
            says=(
                f"{pace:,.0f} folders a second, and {opening:.1f} s of the walk's {walk.value:.1f} s go into opening, "
                f"listing and printing: {opening / births.latest.value * 1e3:.1f} ms for each"
            ),
            evidence=(births.latest, walk),
        )
