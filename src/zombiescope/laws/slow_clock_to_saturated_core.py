"""With a slow clock each question for the time is kernel work on the core of the program that asks."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.core_work import fills_core

WITHIN = 60.0  # seconds: the clock is measured once a minute
LEAST = 0.33  # of what that core did in that time: with less, others fill it


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    words, called = "reading the clock is", "clock_sampled_seconds"
    yield from fills_core(effect, timeline, "clock_read", least=LEAST, words=words, called=called)
