"""Tasks that were blocked without running, by what they slept in: from samples, and from the kernel's log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from zombiescope.core.model import Blind, Reading, Span
from zombiescope.core.timeline import Timeline

SECONDS = "process_blocked_seconds"


@dataclass(frozen=True, slots=True)
class Sleeper:
    """A task that was blocked, and the kernel function that it slept in."""

    subject: str
    span: Span
    where: str
    reading: Reading


def sleepers(timeline: Timeline, *functions: str, least: float) -> list[Sleeper]:
    """Those blocked in one of these functions, of which a piece is enough, for so many seconds; the longest first."""
    found = []
    for subject in timeline.subjects(SECONDS):
        series = timeline.series(SECONDS, subject)
        longest = series.reading(int(series.values.argmax()))
        if longest.value >= least and any(name in longest.text for name in functions):
            found.append(Sleeper(subject, Span(longest.at - longest.value, longest.at), longest.text, longest))
    return sorted(found, key=lambda it: -it.span.seconds)


def unknown(timeline: Timeline, *, least: float) -> Iterator[Blind]:
    """Tasks that were blocked for so long and did not let us see in what: none of the signs of that is clear then."""
    longest = [timeline.series(SECONDS, it) for it in timeline.subjects(SECONDS)]
    hidden = [it for it in longest if float(it.values.max()) >= least and not any(it.texts.values())]
    if hidden:
        why = f"permission denied: what {len(hidden)} blocked tasks wait for"
        yield Blind(what=SECONDS, source="/proc/PID/wchan", why=why)


def covering(found: list[Sleeper]) -> Span:
    return Span(min(it.span.start for it in found), max(it.span.end for it in found))
