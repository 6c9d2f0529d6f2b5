"""Who asks for memory searches for it on its own core and in the kernel, so a long search fills that core."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.knowledge.functions import shows

WITHIN = 1.0  # seconds: the core is busy while the search goes on
MOSTLY = 0.5  # of what that core did in that time: less, and something else fills it


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    there = timeline.samples(effect.span, cpu=int(effect.subject.removeprefix("cpu:")))
    reclaim = there.where(lambda frames: shows(frames, "direct_reclaim"))
    if len(reclaim) and reclaim.seconds >= MOSTLY * there.seconds:
        share = f"{reclaim.seconds / there.seconds:.0%}"
        yield Ground(
            kind="mechanism",
            says=f"caught in the act: {share} of what {effect.subject} did then is the search for memory",
            evidence=(reclaim.reading(effect.subject, "reclaim_sampled_seconds"), there.reading(effect.subject)),
        )
