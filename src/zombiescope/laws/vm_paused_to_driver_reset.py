"""A machine that was paused finds its transmits late, so drivers take their cards for stuck and reset them."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.standstill import within_standstill

WITHIN = 10.0  # seconds: drivers look for late transmits every second, and give up after five


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    yield from within_standstill(cause, effect)
