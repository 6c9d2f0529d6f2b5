"""What a report tells whatever it is written as: the headline, each chain once, the unseen by reason."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from zombiescope.core import Case, Finding, Span, Tally, lasting
from zombiescope.knowledge.blind_causes import what_to_do

NAMED = 3  # root causes that a headline names; the rest are counted
RIVALS = 5  # causes that fit too and are named for one effect; JSON has them all
Chain = tuple[Finding, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Telling:
    """A chain to be told in full, and those that ran like it, which need no more than a line."""

    chain: Chain
    before: int  # how many of its first stages an earlier telling has told already
    again: tuple[Chain, ...]  # of each chain alike, the stages that are its own


@dataclass(frozen=True, slots=True, kw_only=True)
class Unseen:
    """Signs that could not look, all for one reason."""

    state: str  # blind or broken
    signs: tuple[str, ...]
    says: str
    cure: str


def headline(case: Case) -> tuple[str, str]:
    """The answer in one word, and in one sentence."""
    if case.findings:
        roots = case.root_causes()
        riddles = [it.finding for it in case.unexplained if it.finding not in roots]
        told = [_named(roots), f"unexplained: {_named(riddles)}" if riddles else ""]
        return "FOUND", "; ".join(words for words in told if words)
    unseen = [verdict for verdict in case.verdicts if verdict.state in ("blind", "broken")]
    if unseen or not case.verdicts:
        return "CANNOT TELL", f"nothing found, but {len(unseen)} of {len(case.verdicts)} signs could not be seen"
    return "CLEAR", f"all {len(case.verdicts)} signs looked and found nothing"


def _named(findings: Sequence[Finding]) -> str:
    words = [f"{it.sign} of {it.subject}" for it in findings[:NAMED]]
    return ", ".join(words + [f"{len(findings) - NAMED} more"] * (len(findings) > NAMED))


def tellings(case: Case) -> list[Telling]:
    """The longest chain first. One whose signs are the same, or end earlier, ran like it: the unlucky and the lucky."""
    groups: list[list[Chain]] = []
    for chain in case.chains():
        signs = [finding.sign for finding in chain]
        alike = (group for group in groups if [it.sign for it in group[0]][: len(signs)] == signs)
        group = next(alike, None)
        if group is None:
            groups.append([chain])
        else:
            group.append(chain)
    told: set[Finding] = set()
    found = []
    for first, *others in groups:
        before = sum(finding in told for finding in first)
        told |= set(first)
        # Told once, a stage that several share (the leak, the walker) is not told again.
        again = [tuple(finding for finding in chain if finding not in told) for chain in others]
        told |= {finding for chain in again for finding in chain}
        again.sort(key=lambda chain: chain[0].span.start)
        found.append(Telling(chain=first, before=before, again=tuple(again)))
    return found


def unseen(case: Case) -> list[Unseen]:
    """The blind, then the broken; those who were refused with the same words together."""
    reasons: dict[tuple[str, str], list[str]] = {}
    for verdict in sorted(case.verdicts, key=lambda verdict: verdict.state):
        if verdict.state in ("blind", "broken"):
            reasons.setdefault((verdict.state, verdict.says), []).append(verdict.sign)
    return [
        Unseen(state=state, signs=tuple(signs), says=says, cure=what_to_do(says if state == "blind" else state))
        for (state, says), signs in reasons.items()
    ]


def consistency(case: Case) -> Iterator[tuple[Tally, str]]:
    """How often each law held, where there was more than one chance."""
    for it in case.tallies:
        if it.effects > 1 or it.causes > 1:
            cause, _, effect = it.law.partition("_to_")
            idle = it.causes - it.led
            yield (
                it,
                f"{it.explained} of {it.effects} {effect} follow {cause}; {idle} of {it.causes} {cause} led to none",
            )


def next_commands(case: Case) -> list[str]:
    """What to type next."""
    roots = case.root_causes()
    commands = ["zombiescope fix"] * any(plan.aftermath or plan.cures in roots for plan in case.plans)
    commands += [f"zombiescope explain {finding.sign}" for finding in roots or case.findings]
    if any(finding.sign == "zombie_cgroups" for finding in case.findings):
        commands.append("zombiescope census --names")
    return list(dict.fromkeys(commands))


def taken(span: Span) -> str:
    return f"{lasting(span.seconds)} from {clock(span.start, day=True)}"


def clock(at: float, *, day: bool = False) -> str:
    if not math.isfinite(at) or not 0 <= at < 4e9:  # a recording may claim any time
        return "??:??:??"
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%d %H:%M:%S UTC" if day else "%H:%M:%S")


def number(value: float) -> str:
    return f"{value:.0f}" if abs(value) < 1e15 and value == int(value) else f"{value:g}"
