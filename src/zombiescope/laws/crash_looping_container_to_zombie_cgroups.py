"""Each run of a container has a cgroup of its own; one that leaves a page charged to it stays behind as a dying one."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.container_ends import ends, left_behind
from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 600.0  # seconds: what pins dying cgroups may be freed late, and the count is then still high
ENOUGH = 5  # ends: as many cgroups as of fewer may be left by chance


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    own = ends(timeline, cause.subject, timeline.span)
    left = left_behind(timeline, timeline.span) if "memory" in effect.subject else None
    if not own or left is None or left[0] < ENOUGH:
        return
    of_all, dying = left
    others = f" ({of_all:,} of all containers)" if of_all > own else ""
    says = f"it ended {own:,} times{others}, {dying.values[-1] - dying.values[0]:,.0f} more dying"
    yield Ground(kind="dose", says=says, evidence=(*cause.evidence[:2], dying.first, dying.latest))
