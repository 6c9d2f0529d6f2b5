"""Whether a fix worked: the same signs again for a while, compared with how it was before.

Proved: what was fixed is clear, and so is all that followed from it; what the fix leaves behind (LEFT_BEHIND on a sign)
does not grow; signs that are always asked (ALWAYS_PROVED) are clear; and every source was read all the time. Not
proved: one of these fails. Cannot tell: none fails, but one could not be seen. Only where it is proved was taking the
cause away an experiment, which is the strongest ground there is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from zombiescope.core import Case, Check, Finding, Ground, Link, Span, Verdict, lasting
from zombiescope.core.model import SLACK
from zombiescope.core.timeline import Timeline
from zombiescope.members.rooms import healthy

PROVED, NOT_PROVED, CANNOT_TELL = "proved", "not proved", "cannot tell"
UNSEEN = 5.0  # times the usual pause between two looks: longer, and something may have come and gone
UNSEEN_SECONDS = 15.0  # but never less: a starved node is slow to answer


class Examined(NamedTuple):
    """A case with what it was made of."""

    case: Case
    timeline: Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Proof:
    """What the checks came to."""

    state: str
    cured: tuple[Finding, ...]
    checks: tuple[Check, ...]
    before: Span
    after: Span
    case: Case  # as it was before the cure; proved, with the experiment among its grounds


def prove(before: Examined, after: Examined, cured: Sequence[Finding], proof: Collection[str] = ()) -> Proof:
    """`proof`: signs that the remedies name, besides those that were cured and what followed from them."""
    room = healthy("signs")
    left = {name: sign for name, sign in room.items() if getattr(sign, "LEFT_BEHIND", False)}
    always = {name: sign.ALWAYS_PROVED for name, sign in room.items() if getattr(sign, "ALWAYS_PROVED", "")}
    wanted = _wanted(before.case, cured, proof, left)
    signs = {sign: _sign_is_clear(sign, subjects, before, after) for sign, subjects in wanted.items()}
    growth = {name: sign.does_not_grow(before.timeline, after.timeline) for name, sign in left.items()}
    besides = [replace(_sign_is_clear(it, None, before, after), name=words) for it, words in always.items()]
    besides = [check for sign, check in zip(always, besides, strict=True) if sign not in wanted]
    watched = _looked_all_the_time(after, (*wanted, *left, *always))
    checks = (*signs.values(), *growth.values(), *besides, watched)
    states = {check.state for check in checks}
    state = NOT_PROVED if "failed" in states else CANNOT_TELL if "blind" in states else PROVED
    held = {sign for sign, check in (*signs.items(), *growth.items()) if check.state == "held"}
    case = _with_experiment(before.case, cured, held, after, left) if state == PROVED else before.case
    return Proof(
        state=state,
        cured=tuple(cured),
        checks=checks,
        before=before.timeline.span,
        after=after.timeline.span,
        case=case,
    )


def _wanted(case: Case, cured: Sequence[Finding], proof: Collection[str], left: Collection[str]) -> dict[str, set[str]]:
    """Signs that must be clear, and of what; what a fix leaves behind is asked apart: it must not grow."""
    wanted: dict[str, set[str]] = {}
    for finding in cured:
        wanted.setdefault(finding.sign, set()).add(finding.subject)
    for sign in proof:
        # Of a sign that was cured only whom it was cured of: another one's loop is not this cure's business.
        wanted.setdefault(sign, {it.subject for it in case.findings if it.sign == sign})
    for link in _followed(case, cured):
        if link.effect.sign not in left:
            wanted.setdefault(link.effect.sign, set()).add(link.effect.subject)
    return wanted


def _followed(case: Case, cured: Sequence[Finding]) -> list[Link]:
    """The links of all that followed from what was cured, where no rival cause explains it better."""
    best = {finding: links[0].cause for finding in case.findings if (links := case.causes_of(finding))}
    found: list[Link] = []
    reached = set(cured)
    while fresh := [link for link in case.links if link.cause in reached and link not in found]:
        fresh = [link for link in fresh if link.effect in reached or best.get(link.effect) == link.cause]
        if not fresh:
            break
        found += fresh
        reached |= {link.effect for link in fresh}
    return found


def _sign_is_clear(sign: str, subjects: set[str] | None, before: Examined, after: Examined) -> Check:
    verdict = next((it for it in after.case.verdicts if it.sign == sign), Verdict(sign=sign, state="blind"))
    was = next((it.evidence[0] for it in before.case.findings if it.sign == sign), None)
    now = verdict.evidence[0] if verdict.evidence else None
    of = f" of {', '.join(sorted(subjects))}" if subjects else ""
    # The kernel's log reaches back to before the cure: only what went on after it counts.
    began = after.timeline.span.start - SLACK
    found = [it for it in after.case.findings if it.sign == sign and it.span.end >= began]
    again = [it for it in found if not subjects or it.subject in subjects]
    check = Check(name=f"{sign}{of}", state="held", says=verdict.says or "clear", before=was, after=now)
    if again:
        return replace(check, state="failed", says=f"{again[0].subject}: {again[0].says}", after=again[0].evidence[0])
    if verdict.state in ("blind", "broken"):
        return replace(check, state="blind", says=verdict.says or "nobody looked")
    if verdict.state == "found":
        return replace(check, says="found of others only" if found else "none since the cure")
    return check


def _looked_all_the_time(after: Examined, signs: Collection[str]) -> Check:
    """The longest time in which something that a sign needs was not looked at."""
    span, room = after.timeline.span, healthy("signs")
    worst: tuple[float, str] = (0.0, "")
    for need in {need for sign in signs if sign in room for need in room[sign].NEEDS}:
        whats = (need,) if isinstance(need, str) else need
        gaps = [gap for what in whats if (gap := _longest_gap(after.timeline, what, span)) is not None]
        if gaps:
            worst = max(worst, (min(gaps), whats[0]))
    name = "was looked at all the time"
    if worst[0]:
        return Check(name=name, state="blind", says=f"nobody saw {worst[1]} for {lasting(worst[0])}")
    return Check(name=name, state="held", says=f"for {lasting(span.seconds)}")


def _longest_gap(timeline: Timeline, what: str, span: Span) -> float | None:
    """0 if it was looked at as often as usual; None if never, which makes its sign blind anyway."""
    looks = timeline.looks(what)
    times = looks.at[looks.values > 0] if len(looks) else np.empty(0)
    if not len(times):
        return None
    pauses = np.diff(np.concatenate(([span.start], times, [span.end])))
    usual = float(np.median(np.diff(times))) if len(times) > 1 else span.seconds
    longest = float(pauses.max())
    return longest if longest > max(UNSEEN * usual, UNSEEN_SECONDS) else 0.0


def _with_experiment(
    case: Case, cured: Sequence[Finding], held: set[str], after: Examined, left: Collection[str]
) -> Case:
    """Each link whose cause was taken away and whose effect is gone, with that as a ground."""
    taken = {(link.law, link.cause, link.effect) for link in _followed(case, cured)}
    links = tuple(
        replace(link, grounds=(*link.grounds, *_experiment(link, after, left)))
        if (link.law, link.cause, link.effect) in taken and {link.cause.sign, link.effect.sign} <= held
        else link
        for link in case.links
    )
    return replace(case, links=links)


def _experiment(link: Link, after: Examined, left: Collection[str]) -> Iterator[Ground]:
    verdict = next((it for it in after.case.verdicts if it.sign == link.effect.sign), None)
    seen = verdict.evidence[:1] if verdict is not None else ()
    gone = "no more came" if link.effect.sign in left else f"{link.effect.sign} was gone"
    yield Ground(
        kind="experiment",
        says=f"{link.cause.sign} of {link.cause.subject} taken away, {gone} for {lasting(after.case.span.seconds)}",
        evidence=(link.effect.evidence[0], *seen),
    )
