"""A walk through files of /proc runs in the kernel on one core to its end, so that core has no time for others."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.core_work import fills_core

WITHIN = 1.0  # seconds: the core is busy while it goes on
LEAST = 0.33  # of what that core did in that time: with less, others fill it


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    yield from fills_core(
        effect, timeline, "proc_walk", least=LEAST, words="a walk through /proc is", called="proc_walk_sampled_seconds"
    )
