"""A core that spins for a lock is busy in the kernel and does nothing."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.core_work import fills_core

WITHIN = 1.0  # seconds: the core is busy while it goes on
LEAST = 0.33  # of what that core did in that time: with less, others fill it


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    yield from fills_core(
        effect, timeline, "lock", least=LEAST, words="waiting for locks is", called="lock_sampled_seconds"
    )
