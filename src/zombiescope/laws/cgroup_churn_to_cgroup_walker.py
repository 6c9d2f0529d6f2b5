"""What watches the cgroup tree reads each new folder, so folders that come and go keep it busy with their files."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 5.0  # seconds: a watcher reads a new folder at once
PER_SECOND = 5.0  # births: fewer, at some milliseconds each, do not cost a twentieth of a core
OPENING = 0.5  # of the walk: where most of it is visits, the number of cgroups costs the time, not their churn


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    told = {it.what: it for it in effect.evidence}
    walk, visit = told.get("walk_sampled_seconds"), told.get("visit_sampled_seconds")
    length = timeline.looks("cgroup_births_total").span.seconds
    if walk is None or not len(timeline.series("cgroup_births_total", cause.subject)) or not length:
        return
    births = timeline.counted("cgroup_births_total", cause.subject)
    pace = births.value / length
    opening = walk.value - (visit.value if visit else 0.0)
    if pace >= PER_SECOND and opening >= OPENING * walk.value:
        yield Ground(
            kind="dose",
            says=(
                f"{pace:,.0f} new folders a second, and {opening:.1f} s of the walk's {walk.value:.1f} s is opening, "
                f"listing and printing: {opening / births.value * 1e3:.1f} ms for each"
            ),
            evidence=(births, walk),
        )
