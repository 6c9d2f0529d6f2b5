"""Packets that a core dropped because its backlog was full."""

from __future__ import annotations

from zombiescope.core.harm import Part
from zombiescope.core.model import Span
from zombiescope.core.timeline import Timeline

DROPPED = "softnet_dropped_total"


def lost_packets(timeline: Timeline, cpu: str, span: Span) -> tuple[Part, ...]:
    """As a part of what a finding costs; none where none was dropped, or where that was not counted."""
    dropped = timeline.series(DROPPED, cpu).between(span)
    lost = dropped.latest.value - dropped.first.value if len(dropped) > 1 else 0.0
    return (Part(figure="broken", kind="drops", who=cpu, amount=lost, span=span),) if lost > 0 else ()
