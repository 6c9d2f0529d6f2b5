"""One core that gets nearly all packets cannot take them as fast as they come, so its backlog overflows."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.backlog import same_backlog

WITHIN = 5.0  # seconds: the backlog overflows while the packets come


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    yield from same_backlog(cause, effect)
