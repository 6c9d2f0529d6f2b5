"""The kernel holds a removed cgroup while a page charged to it stays in use, so churn leaves dying cgroups behind."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.census import count
from zombiescope.cgroups.doses import matches
from zombiescope.cgroups.unit_cgroups import freed
from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 600.0  # seconds: what pins dying cgroups may be freed late, and the count is then still high
KEPT = 0.5  # of those removed: fewer is the ordinary delay before the kernel frees them
SHARE = 0.25  # of all that were removed, where releases cannot be seen: with less it is one of many
SURELY = 20  # of those removed still held: they stay although as many of others were freed meanwhile


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    removals = timeline.series("cgroup_removals_total", cause.subject)
    releases = freed(timeline, cause.subject)
    census = next((it for it in count(timeline) if it.subject == effect.subject), None)
    if census is None or "memory" not in census.controllers or not len(removals):
        return
    removed, grown = timeline.counted("cgroup_removals_total", cause.subject), census.grown
    counted = (removed, *releases, census.dying.first, census.dying.latest)
    if timeline.looked("cgroup_releases_total"):
        kept = removed.value - sum(it.value for it in releases)
        if kept >= KEPT * removed.value and (grown > 0 or kept >= SURELY):
            more = f"{grown:,.0f} more are dying" if grown > 0 else "others were freed meanwhile"
            says = f"the kernel still holds {kept:,.0f} of {removed.value:,.0f} removed; {more}"
            yield Ground(kind="dose", says=says, evidence=counted)
        return
    # One that restarts removes several kinds of cgroups; all that were removed may have stayed.
    of_all = sum(
        timeline.counted("cgroup_removals_total", it).value for it in timeline.subjects("cgroup_removals_total")
    )
    if matches(of_all, grown) and removed.value >= SHARE * of_all:
        others = f" ({of_all:,.0f} in all)" if of_all > removed.value else ""
        says = f"{removed.value:,.0f}{others} removed, {grown:,.0f} more dying"
        yield Ground(kind="dose", says=says, evidence=counted)
