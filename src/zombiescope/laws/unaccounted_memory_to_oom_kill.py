"""Memory that nothing accounts for is nobody's to free, so the kernel kills a program that used far less."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.missing_memory import lacks_it

WITHIN = 60.0  # seconds: what is missing stays missing after the kill


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    yield from lacks_it(cause, effect)
