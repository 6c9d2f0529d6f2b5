"""Which service or container was restarted most, for a sign that finds none that keeps crashing."""

from __future__ import annotations

from zombiescope.core.model import Reading
from zombiescope.core.timeline import Timeline
from zombiescope.core.words import harmless


def most_restarted(timeline: Timeline, counter: str, otherwise: str, called: str) -> tuple[str, tuple[Reading, ...]]:
    """`otherwise`: what was looked at where nothing counts restarts; `called`: what they are, in words."""
    most = sorted(timeline.latest(counter), key=lambda reading: reading.value, reverse=True)
    if not most or not most[0].value:
        looked = timeline.looks(counter if timeline.looked(counter) else otherwise)
        return f"none of {len(most)} {called} was restarted", (looked.latest,) if len(looked) else ()
    name = harmless(most[0].subject.partition(":")[2])
    return f"most restarted: {name}, {most[0].value:,.0f} times in all", (most[0],)
