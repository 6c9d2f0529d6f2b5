"""A core whose softirqs have to wait does not take packets from its backlog, so what comes meanwhile is dropped."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.backlog import same_backlog

WITHIN = 5.0  # seconds: the backlog overflows while the core is starved


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    yield from same_backlog(cause, effect)
