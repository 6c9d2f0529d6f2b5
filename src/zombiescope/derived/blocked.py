"""Tasks that were blocked without running, by what they slept in: from samples, and from the kernel's log."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from zombiescope.core.model import Blind, Finding, Ground, Reading, Span
from zombiescope.core.timeline import Timeline

SECONDS = "process_blocked_seconds"


class Sleeper(NamedTuple):
    """A task that was blocked, and the kernel function that it slept in."""

    subject: str
    span: Span
    where: str
    reading: Reading


def sleepers(timeline: Timeline, *functions: str, least: float, what: str = SECONDS) -> list[Sleeper]:
    """Those blocked in one of these functions, of which a piece is enough, for so many seconds; the longest first."""
    found = []
    for subject in timeline.subjects(what):
        series = timeline.series(what, subject)
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


def waits_for_it(cause: Finding, effect: Finding, called: str = "it") -> Iterator[Ground]:
    """That a blocked task of the effect is one of those whose wait the cause was found by."""
    waiting = {it.subject: it for it in cause.evidence if it.what == SECONDS}
    both = [it for it in effect.evidence if it.subject in waiting]
    if both:
        who, where = both[0].subject.removeprefix("process:"), waiting[both[0].subject].text
        says = f"{who} is one of those that wait for {called}, in {where}"
        yield Ground(kind="mechanism", says=says, evidence=(both[0], waiting[both[0].subject]))
