"""A task that needs memory reclaims it in the kernel on its own core, so long reclaim fills that core."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.core_work import fills_core

WITHIN = 1.0  # seconds: the core is busy while reclaim goes on
MOSTLY = 0.5  # of what that core did in that time: less, and something else fills it


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    words, called = "direct reclaim is", "reclaim_sampled_seconds"
    yield from fills_core(effect, timeline, "direct_reclaim", least=MOSTLY, words=words, called=called)
