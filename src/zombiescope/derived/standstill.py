"""What a machine that stood still makes of the time that it missed."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core.model import Finding, Ground
from zombiescope.core.words import lasting


def within_standstill(still: Finding, effect: Finding) -> Iterator[Ground]:
    """That an event's time includes the standstill, or that it was noticed right when the machine came back."""
    both = min(still.span.end, effect.span.end) - max(still.span.start, effect.span.start)
    late = effect.span.start - still.span.end
    if both > 0:
        says = f"{lasting(both)} of its time the whole machine stood still"
        yield Ground(kind="mechanism", says=says, evidence=(still.evidence[0], effect.evidence[0]))
    elif late >= 0:
        says = f"it was noticed {late:.1f} s after the machine came back from standing still"
        yield Ground(kind="mechanism", says=says, evidence=(still.evidence[0], effect.evidence[0]))
