"""What `-v` adds to the text report: every ground and reading, other possible causes, how often each law held."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zombiescope.core import Case, Finding, Reading, Unexplained
from zombiescope.core.commands import typed
from zombiescope.knowledge.blind_causes import what_to_do
from zombiescope.outputs._lines import Line, wrapped
from zombiescope.outputs._story import OTHERS, consistency, ground_kind, ground_words, number, sentence, unseen, why_not
from zombiescope.outputs._times import utc

READINGS = 3  # shown for one claim; JSON and HTML have them all
Lines = Iterator[Line]


class Shown:
    """Remembers what was shown of one chain: each reading, and each stack, at most once."""

    def __init__(self) -> None:
        self._seen: set[object] = set()

    def readings(self, readings: Sequence[Reading], width: int) -> Lines:
        fresh = [it for it in readings if it not in self._seen]
        for it in fresh[:READINGS]:
            stack = it.text if ";" in it.text else ""
            text = "(the stack above)" if stack in self._seen and stack else " ".join(it.text.split())
            self._seen |= {it, stack} - {""}
            quoted = f"  «{text}»" if text else ""
            words = f"{utc(it.at)}  {it.what} {number(it.value)}  {typed(it.source)}{quoted}"
            yield from wrapped(words, width, first="      ", rest=" " * 8, style="dim")
        if len(fresh) > READINGS:
            yield Line(f"      … {len(fresh) - READINGS} more readings", "dim")


def link(case: Case, finding: Finding, width: int, shown: Shown) -> Lines:
    """Why a finding follows from the one before it, and what else could have led to it."""
    first, *others = case.causes_of(finding)
    for ground in first.grounds:
        yield from wrapped(ground_words(ground), width, first="    ↓ ")
        yield from shown.readings(ground.evidence, width)
    besides = case.rivals_of(finding)
    for earlier in (it for it in others if it not in besides):
        for ground in (it for it in earlier.grounds if it.kind != "order"):
            yield from wrapped(
                f"also straight from {earlier.cause.sign}: {ground_words(ground)}", width, first="    ↓ "
            )
    for other in besides[:OTHERS]:
        kinds = ", ".join(ground_kind(ground) for ground in other.grounds)
        cost = f"; {says}" if (says := case.cost_of(other.cause).says).startswith("would") else ""
        words = f"other possible cause: {sentence(other.cause)} ({other.cause.sign}; {kinds}){cost}"
        yield from wrapped(words, width, first="    ? ", style="dim")
    if len(besides) > OTHERS:
        yield Line(f"    ? … and {len(besides) - OTHERS} more", "dim")


def candidates(puzzle: Unexplained, width: int) -> Lines:
    """For a finding without a cause: why each known cause is not the one."""
    for it in puzzle.candidates:
        label = why_not(it)
        cause = it.law.partition("_to_")[0]
        yield from wrapped(f"{label}: {cause}: {it.why_not}", width, first="    ", rest=" " * 6)
        if do := what_to_do(it.why_not):
            yield from wrapped(do, width, first="      → ", style="yellow")


def consistently(case: Case, width: int) -> Lines:
    for place, (_, words) in enumerate(consistency(case)):
        if not place:
            yield Line()
        yield from wrapped(words, width, first="  ")


def unchecked(case: Case, width: int) -> Lines:
    """Each reason in full, and what would let us look."""
    for it in unseen(case):
        label = "could not look" if it.state == "blind" else "broken"
        because = f": {it.says}" if it.says else ""
        yield from wrapped(f"{label}: {', '.join(it.signs)}{because}", width, rest="    ", style="yellow")
        if it.do:
            yield from wrapped(it.do, width, first="    → ", style="yellow")
