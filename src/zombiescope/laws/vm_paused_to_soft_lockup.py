"""A machine that was paused comes back with clocks ahead of its work, so cores that stood still look stuck."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.standstill import within_standstill

WITHIN = 30.0  # seconds: the kernel looks for lockups every few seconds, and logs them after the pause


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    yield from within_standstill(cause, effect)
