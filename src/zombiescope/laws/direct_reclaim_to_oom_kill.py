"""The kernel OOM-kills only when reclaim finds no memory, so reclaim comes before the kill."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 30.0  # seconds: reclaim goes on until the kill, and limits are sampled every six seconds


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    kills = timeline.series("cgroup_oom_kills_total", cause.subject)
    if cause.subject == effect.subject:
        where = "the whole node" if cause.subject == "node" else cause.subject.removeprefix("cgroup:")
        says = f"both in {where}: tasks waited for memory, got none, and one was OOM-killed"
        yield Ground(kind="place", says=says, evidence=(cause.evidence[0], effect.evidence[0]))
    elif len(kills) and kills.latest.value > kills.first.value:
        times = f"{kills.latest.value - kills.first.value:,.0f}"
        says = f"{times} more OOM-killed in {cause.subject.removeprefix('cgroup:')}"
        yield Ground(kind="place", says=says, evidence=(kills.first, kills.latest))
