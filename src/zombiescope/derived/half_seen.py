"""What was seen only in part: too many for one look, or some that cannot be read. Then nothing found is not clear."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core.model import Blind
from zombiescope.core.timeline import Timeline


def half_seen(timeline: Timeline, *whats: str) -> Iterator[Blind]:
    """Of each thing, what its latest look left out, if it saw anything at all."""
    for what in whats:
        looks = timeline.looks(what)
        if len(looks) and looks.latest.value and looks.latest.text:
            yield Blind(what=what, source=looks.latest.source, why=looks.latest.text)
