"""Whether a cure worked: the signs that asked for it, looked at again for a while, against how it was before.

Proved: what was cured is clear, and so is all that followed from it; dead cgroups do not grow; no card has reset; reads
of statistics are quick; and somebody looked all the time. Not proved: one of these fails. Cannot tell: none fails, but
one could not be seen. Only then is taking the cause away an experiment, and the strongest ground there is.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np

from zombiescope.cgroups.census import Census, count
from zombiescope.core import Case, Finding, Ground, Link, Reading, Span, Verdict, lasting
from zombiescope.core.model import SLACK
from zombiescope.core.timeline import Timeline
from zombiescope.members.rooms import healthy

PROVED, NOT_PROVED, CANNOT_TELL = "proved", "not proved", "cannot tell"
RESIDUE = 14  # dead cgroups that come and stay without any leak: metadata of the journal, charges kept on each core
UNSEEN = 5.0  # times the usual pause between two looks: longer, and something may have come and gone
UNSEEN_SECONDS = 15.0  # but never less: a starved node is slow to answer
ALWAYS = {"driver_reset": "no card has reset", "slow_stat_read": "statistics are read quickly"}
# What a cure of the cause leaves behind. It must not grow; that it goes is asked of the remedy that clears it up.
LEFT_BEHIND = ("zombie_cgroups",)


class Examined(NamedTuple):
    """A case with what it was made of."""

    case: Case
    timeline: Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Check:
    """One thing that must hold after a cure."""

    name: str
    state: str  # held, failed or blind
    says: str
    before: Reading | None = None
    after: Reading | None = None


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
    wanted = _wanted(before.case, cured, proof)
    signs = {sign: _sign_is_clear(sign, subjects, before, after) for sign, subjects in wanted.items()}
    always = [
        replace(_sign_is_clear(sign, None, before, after), name=name)
        for sign, name in ALWAYS.items()
        if sign not in wanted
    ]
    growth = _dead_do_not_grow(before, after)
    checks = (*signs.values(), growth, *always, _looked_all_the_time(after, (*wanted, *LEFT_BEHIND, *ALWAYS)))
    states = {check.state for check in checks}
    state = NOT_PROVED if "failed" in states else CANNOT_TELL if "blind" in states else PROVED
    held = {sign for sign, check in signs.items() if check.state == "held"}
    held |= {sign for sign in LEFT_BEHIND if growth.state == "held"}
    case = _with_experiment(before.case, cured, held, after) if state == PROVED else before.case
    return Proof(
        state=state,
        cured=tuple(cured),
        checks=checks,
        before=before.timeline.span,
        after=after.timeline.span,
        case=case,
    )


def _wanted(case: Case, cured: Sequence[Finding], proof: Collection[str]) -> dict[str, set[str]]:
    """Signs that must be clear, and of whom."""
    wanted: dict[str, set[str]] = {}
    for finding in cured:
        wanted.setdefault(finding.sign, set()).add(finding.subject)
    for sign in proof:
        # Of a sign that was cured only whom it was cured of: another one's loop is not this cure's business.
        wanted.setdefault(sign, {it.subject for it in case.findings if it.sign == sign})
    for link in _followed(case, cured):
        if link.effect.sign not in LEFT_BEHIND:
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


def _dead_do_not_grow(before: Examined, after: Examined) -> Check:
    name = "dead memory cgroups do not grow"
    earlier, later = _memory(before.timeline), _memory(after.timeline)
    if later is None or len(later.dying) < 2:
        return Check(name=name, state="blind", says="they were not counted twice")
    values = later.dying.values
    quarter = max(len(values) // 4, 1)
    rise = float(np.median(values[-quarter:]) - np.median(values[:quarter]))
    seconds = float(later.dying.at[-1] - later.dying.at[0])
    pace = earlier.growth_per_hour / 3600 if earlier is not None else 0.0
    # A slow leak must show too: half of what the pace before would have brought is too much.
    most = max(2.0, min(RESIDUE, pace * seconds / 2)) if pace > 0 else RESIDUE
    was = f"{earlier.dead:,.0f} at {earlier.growth_per_hour:+,.0f} an hour" if earlier is not None else "not counted"
    says = f"before {was}, after {later.dead:,.0f}: {rise:+,.0f} within {lasting(seconds)}"
    return Check(
        name=name,
        state="held" if rise <= most else "failed",
        says=says,
        before=earlier.dying.latest if earlier is not None else None,
        after=later.dying.latest,
    )


def _memory(timeline: Timeline) -> Census | None:
    return next((census for census in count(timeline) if "memory" in census.controllers), None)


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


def _with_experiment(case: Case, cured: Sequence[Finding], held: set[str], after: Examined) -> Case:
    """Each link whose cause was taken away and whose effect is gone, with that as a ground."""
    taken = {(link.law, link.cause, link.effect) for link in _followed(case, cured)}
    links = tuple(
        replace(link, grounds=(*link.grounds, *_experiment(link, after)))
        if (link.law, link.cause, link.effect) in taken and {link.cause.sign, link.effect.sign} <= held
        else link
        for link in case.links
    )
    return replace(case, links=links)


def _experiment(link: Link, after: Examined) -> Iterator[Ground]:
    verdict = next((it for it in after.case.verdicts if it.sign == link.effect.sign), None)
    seen = verdict.evidence[:1] if verdict is not None else ()
    gone = "no more came" if link.effect.sign in LEFT_BEHIND else f"{link.effect.sign} was gone"
    yield Ground(
        kind="experiment",
        says=f"{link.cause.sign} of {link.cause.subject} taken away, {gone} for {lasting(after.case.span.seconds)}",
        evidence=(link.effect.evidence[0], *seen),
    )
