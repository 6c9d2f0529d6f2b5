"""Who asks for memory searches for it on its own core and in the kernel, so a long search fills that core."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 1.0  # seconds: the core is busy while the search goes on
MOSTLY = 0.5  # of what that core did in that time: less, and something else fills it
_RECLAIM = frozenset({"try_to_free_mem_cgroup_pages", "try_to_free_pages"})


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    there = timeline.samples(effect.span, cpu=int(effect.subject.removeprefix("cpu:")))
    reclaim = there.where(lambda frames: any(frame.partition(".")[0] in _RECLAIM for frame in frames))
    if len(reclaim) and reclaim.seconds >= MOSTLY * there.seconds:
        share = f"{reclaim.seconds / there.seconds:.0%}"
        yield Ground(
            kind="mechanism",
            says=f"caught in the act: {share} of what {effect.subject} did then is the search for memory",
            evidence=(reclaim.reading(effect.subject, "reclaim_sampled_seconds"), there.reading(effect.subject)),
        )
