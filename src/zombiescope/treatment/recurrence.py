"""How often a fault came before a fix, so how long a check must last until it would have come again three times.

By the rule of three: what came every T seconds on average and did not come for 3 T has stopped, with 95 % confidence.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
from dataclasses import dataclass

from zombiescope.core import Case, Check, Finding, Span, lasting
from zombiescope.core.model import SLACK

TIMES = 3.0  # intervals without the fault: exp(-3) = 5 % is the chance that it merely did not happen to come
_AMOUNTS = ("seconds", "bytes")  # a rise of these is no number of times


@dataclass(frozen=True, slots=True)
class Recurrence:
    """How often the fault showed in one sign, and how long it must stay away."""

    sign: str
    says: str
    needs: float  # seconds


def long_enough(case: Case, findings: Collection[Finding], checked: float) -> Check:
    """Whether the fault, at its old pace, would have come three times in the time checked; the slowest sign decides."""
    name = "long enough for the fault to come again"
    slowest = max(recurrences(case, findings), key=lambda it: it.needs, default=None)
    if slowest is None:
        return Check(name=name, state="blind", says="how often it came before is not known")
    says = f"checked for {lasting(checked)}; {slowest.sign} {slowest.says}: {lasting(slowest.needs)} are needed"
    return Check(name=name, state="held" if checked >= slowest.needs - SLACK else "blind", says=says)


def recurrences(case: Case, findings: Iterable[Finding]) -> Iterator[Recurrence]:
    """One for each sign among the findings."""
    by_sign: dict[str, list[Finding]] = {}
    for finding in sorted(findings, key=lambda it: it.span.start):
        by_sign.setdefault(finding.sign, []).append(finding)
    for sign, its in by_sign.items():
        yield _recurrence(sign, its, case.span)


def _recurrence(sign: str, its: list[Finding], recorded: Span) -> Recurrence:
    starts = _starts(its)
    counts = [pace for pace in map(_counted, its) if pace is not None]
    silent = recorded.end - max(it.span.end for it in its)
    if len(starts) > 1:
        times, every = len(starts), (starts[-1] - starts[0]) / (len(starts) - 1)
    elif counts:
        times, every = max(counts, key=lambda it: it[1])
    else:
        whole = recorded.end - min(recorded.start, starts[0])
        return Recurrence(sign, f"came once in {lasting(whole)}", whole)
    says = f"came {times:,} times, every {lasting(every)}"
    if silent > TIMES * every:  # it had stopped before the fix: its last pause is its interval
        return Recurrence(sign, f"{says}, but not in the last {lasting(silent)}", TIMES * silent)
    return Recurrence(sign, says, TIMES * every)


def _starts(its: list[Finding]) -> list[float]:
    """When each episode began; what begins together on several subjects is one."""
    starts: list[float] = []
    for finding in its:
        if not starts or finding.span.start - starts[-1] > SLACK:
            starts.append(finding.span.start)
    return starts


def _counted(finding: Finding) -> tuple[int, float] | None:
    """How many times in one episode, and how far apart: from a count that rose in its evidence."""
    rises = []
    for one in finding.evidence:
        for other in finding.evidence:
            same = (one.what, one.subject) == (other.what, other.subject) and not any(it in one.what for it in _AMOUNTS)
            if same and other.at > one.at and other.value - one.value >= 2:
                rises.append((int(other.value - one.value), (other.at - one.at) / (other.value - one.value)))
    return max(rises, default=None)
