"""A hook runs on the core of the program that it watches and counts as its time in the kernel."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.core_work import fills_core

WITHIN = 1.0  # seconds: the core is busy while it goes on
LEAST = 0.33  # of what that core did in that time: with less, others fill it


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    yield from fills_core(effect, timeline, "hook", least=LEAST, words="hooks are", called="hook_sampled_seconds")
