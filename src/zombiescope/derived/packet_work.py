"""What a core's interrupt and softirq work costs: the time it took from those who waited there, and dropped packets."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core.harm import Harm, Part
from zombiescope.core.model import Span
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.waits import waited_for_core

DROPPED = "softnet_dropped_total"


def packet_work_harm(timeline: Timeline, work: Series) -> Harm:
    """`work` is the share of one core that it took, over one period."""
    waited = waited_for_core(timeline, int(work.subject.removeprefix("cpu:")), work.span)
    burnt = Part(figure="burnt", who=work.subject, amount=work.mean(), span=work.span, contended=waited)
    return Harm(parts=(burnt, *dropped_packets(timeline, work.subject, work.span)))


def dropped_packets(timeline: Timeline, cpu: str, span: Span) -> Iterator[Part]:
    """None where none was dropped because the core's backlog was full, or where that was not counted."""
    dropped = timeline.series(DROPPED, cpu).between(span)
    lost = dropped.latest.value - dropped.first.value if len(dropped) > 1 else 0.0
    if lost > 0:
        yield Part(figure="broken", kind="drops", who=cpu, amount=lost, span=span)
