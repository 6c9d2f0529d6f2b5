"""The kernel kills only when searching for memory has failed, so a kill ends what began as a search."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 30.0  # seconds: reclaim goes on until the kill, and looks at limits are five seconds apart


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    kills = timeline.series("cgroup_oom_kills_total", cause.subject)
    if cause.subject == effect.subject:
        where = "the whole node" if cause.subject == "node" else cause.subject.removeprefix("cgroup:")
        says = f"both in {where}: it waited for memory, got none, and was killed in"
        yield Ground(kind="place", says=says, evidence=(cause.evidence[0], effect.evidence[0]))
    elif len(kills) and kills.latest.value > kills.first.value:
        says = f"{kills.latest.value - kills.first.value:,.0f} more killed in {cause.subject.removeprefix('cgroup:')}"
        yield Ground(kind="place", says=says, evidence=(kills.first, kills.latest))
