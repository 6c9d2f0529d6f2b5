"""What a core's interrupt and softirq work costs: the time it took from those who waited there, and dropped packets."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.waits import waited_for_core

DROPPED = "softnet_dropped_total"


def packet_work_harm(timeline: Timeline, work: Series) -> Harm:
    """`work` is the share of one core that it took, over one period."""
    waited = waited_for_core(timeline, int(work.subject.removeprefix("cpu:")), work.span)
    burnt = Part(figure="burnt", who=work.subject, amount=work.mean(), span=work.span, contended=waited)
    return Harm(parts=(burnt, *_dropped(timeline, work)))


def _dropped(timeline: Timeline, work: Series) -> Iterator[Part]:
    """None where none was dropped, or where that was not counted."""
    dropped = timeline.series(DROPPED, work.subject).between(work.span)
    lost = dropped.latest.value - dropped.first.value if len(dropped) > 1 else 0.0
    if lost > 0:
        yield Part(figure="broken", kind="drops", who=work.subject, amount=lost, span=work.span)
