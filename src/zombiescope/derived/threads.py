"""Threads of busy processes that were never read: what was skipped is blind, never clear."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core.model import Blind
from zombiescope.core.timeline import Timeline

UNREAD = "threads_unread"


def unread_threads(timeline: Timeline) -> Iterator[Blind]:
    """How many had no turn until the end of the recording, if any."""
    unread = timeline.series(UNREAD)
    if len(unread) and unread.latest.value > 0:
        left = unread.latest
        why = f"{left.value:,.0f} threads of busy processes had no turn yet, most of {left.text}; record longer"
        yield Blind(what=UNREAD, source=left.source, why=why)
