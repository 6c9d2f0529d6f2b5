"""A task that needs memory reclaims it in the kernel on its own core, so long reclaim fills that core."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, percent
from zombiescope.core.timeline import Timeline
from zombiescope.knowledge.functions import shows

WITHIN = 1.0  # seconds: the core is busy while reclaim goes on
MOSTLY = 0.5  # of what that core did in that time: less, and something else fills it


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    there = timeline.samples(effect.span, cpu=int(effect.subject.removeprefix("cpu:")))
    reclaim = there.where(lambda frames: shows(frames, "direct_reclaim"))
    if len(reclaim) and reclaim.seconds >= MOSTLY * there.seconds:
        share = percent(reclaim.seconds / there.seconds)
        yield Ground(
            kind="mechanism",
            says=f"seen in stacks: direct reclaim is {share} of what {effect.subject.replace(':', ' ')} did then",
            evidence=(reclaim.reading(effect.subject, "reclaim_sampled_seconds"), there.reading(effect.subject)),
        )
