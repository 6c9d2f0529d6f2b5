"""Printing to a serial console is waiting for it, byte by byte, on the core that prints."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.core_work import fills_core

WITHIN = 1.0  # seconds: the core is busy while it goes on
LEAST = 0.33  # of what that core did in that time: with less, others fill it


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    words, called = "printing the log is", "console_print_sampled_seconds"
    yield from fills_core(effect, timeline, "console_print", least=LEAST, words=words, called=called)
