"""Memory that nothing accounts for cannot be reclaimed, so programs reclaim from each other what is left."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.missing_memory import lacks_it

WITHIN = 60.0  # seconds: both are states that last


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    yield from lacks_it(cause, effect)
