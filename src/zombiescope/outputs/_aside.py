"""What accuses nobody: what is over, what harms nobody, and what could not be weighed. A line each."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from zombiescope.core import Case, Finding, lasting
from zombiescope.core.harm import FIGURES
from zombiescope.outputs._story import sentence

_FIGURES = {"broken": "failures", "waited": "waiting", "burnt": "CPU burnt", "held": "memory held", "soon": "growth"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Aside:
    """A section of the report: its heading, and what stands in it."""

    name: str
    heading: str
    findings: tuple[Finding, ...]


def asides(case: Case) -> Iterator[Aside]:
    """Of those alike (one sign, one subject) the last one."""
    if case.past:
        yield Aside(
            name="past", heading="Earlier, over before this recording began:", findings=_distinct(case.past[::-1])
        )
    if case.unsure:
        heading = "Found, but what it costs could not be measured:"
        yield Aside(name="unsure", heading=heading, findings=_distinct(case.unsure))
    if case.noted:
        yield Aside(name="noted", heading="Noted, no harm done:", findings=_distinct(case.noted))
    if case.own:
        heading = "What zombiescope itself did or met with, which is no finding:"
        yield Aside(name="own", heading=heading, findings=_distinct(case.own))


def in_one_line(case: Case, aside: Aside, finding: Finding) -> str:
    """One of them as a line; what is over with its age, what could not be weighed with what is missing."""
    words = f"{sentence(finding)}"
    if aside.name == "own":
        return (
            f"zombiescope itself {finding.harm.says.replace('costs', 'took')}: {words}" if finding.harm.says else words
        )
    if aside.name == "past":
        return f"{lasting(case.span.end - finding.span.end)} ago: {words}"
    if aside.name == "unsure" and (lacking := unmeasured([finding])):
        return f"{lacking} not measured: {words}"
    return words


def unmeasured(findings: Sequence[Finding]) -> str:
    missing = {name for it in findings for name in it.harm.unknown}
    if any(part.figure == "burnt" and part.contended is None for it in findings for part in it.harm.parts):
        missing.add("waited")
    return ", ".join(_FIGURES[it] for it in FIGURES if it in missing)


def _distinct(findings: Sequence[Finding]) -> tuple[Finding, ...]:
    return tuple({(it.sign, it.subject): it for it in reversed(findings)}.values())[::-1]
