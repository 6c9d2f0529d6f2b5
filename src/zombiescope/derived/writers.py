"""Who wrote most while tasks waited for I/O."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.core.model import Reading, Span
from zombiescope.core.timeline import Timeline
from zombiescope.core.words import amount, harmless

WRITTEN = "process_written_bytes_total"
MUCH = 1 << 20  # bytes a second: less is what daemons log, and fills no disk of any size
MOSTLY = 0.5  # of what those who wrote most wrote: with less nobody in particular does it


class Writer(NamedTuple):
    """A process, what it wrote a second, that in words, and the readings that show it."""

    subject: str
    each: float
    words: str
    evidence: tuple[Reading, ...]


def writer(timeline: Timeline, span: Span) -> Writer | None:
    """None where nobody was asked, or nobody wrote most of it."""
    found = []
    for subject in timeline.subjects(WRITTEN, "process"):
        rate = timeline.rate(WRITTEN, subject, within=span)
        if len(rate) and (each := rate.mean()) > 0:
            words = f"; {harmless(subject.removeprefix('process:'))} wrote most, {amount(each)} a second"
            found.append(Writer(subject, each, words, (timeline.series(WRITTEN, subject).latest,)))
    most = max(found, key=lambda it: it.each, default=None)
    if most is None or most.each < MUCH or most.each < MOSTLY * sum(it.each for it in found):
        return None
    return most
