"""Whether a fix worked: the same signs again for a while, compared with how it was before.

Proved: what was fixed is clear, and so is all that followed from it, also where it would have moved to another core or
card; what the fix leaves behind (LEFT_BEHIND on a sign) does not grow; signs that are always checked (ALWAYS_PROVED)
are clear; nothing new suffers without a known cause; and all of that for the whole window, three times as long as the
fault needed to come again, under comparable load, with every source read all the time. Not proved: a sign fails.
Cannot tell: none fails, but one could not be checked, or the window, the load or the sources do not suffice. Only a fix
that is proved counts as an experiment, which is the strongest ground there is.
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
from zombiescope.treatment.load import comparable_load
from zombiescope.treatment.recurrence import long_enough

PROVED, NOT_PROVED, CANNOT_TELL = "proved", "not proved", "cannot tell"
UNSEEN = 5.0  # times the usual pause between two samples: longer, and something may have come and gone
UNSEEN_SECONDS = 15.0  # but never less: a starved node is slow to answer
CUT_SECONDS, CUT_SHARE = 2.0, 0.01  # a window may be shorter by this much: the first and last samples take a moment


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


def prove(
    before: Examined,
    after: Examined,
    cured: Sequence[Finding],
    proof: Collection[str] = (),
    window: float | None = None,
) -> Proof:
    """`proof`: signs that the remedies name, besides those that were fixed and what followed from them.

    `window`: seconds that were to be checked; None for a recording, whose length is what it is.
    """
    room = healthy("signs")
    left = {name: sign for name, sign in room.items() if getattr(sign, "LEFT_BEHIND", False)}
    always = {name: sign.ALWAYS_PROVED for name, sign in room.items() if getattr(sign, "ALWAYS_PROVED", "")}
    chain = _chain(before.case, cured, proof)
    # A core that was saturated shows the fault's load, even where no law could join it to the chain.
    faulty = {it.subject for it in chain} | {it.subject for it in before.case.findings if it.subject.startswith("cpu:")}
    wanted = _wanted(chain, cured, proof, left)
    signs = {sign: _sign_is_clear(sign, subjects, before, after) for sign, subjects in wanted.items()}
    growth = {name: sign.does_not_grow(before.timeline, after.timeline) for name, sign in left.items()}
    besides = [
        replace(_sign_is_clear(it, None, before, after), name=words) for it, words in always.items() if it not in wanted
    ]
    checks = (
        *signs.values(),
        *growth.values(),
        *besides,
        _nothing_new(before.case, after),
        _whole_window(after, window),
        long_enough(before.case, chain, after.timeline.span.seconds),
        comparable_load(before.timeline, after.timeline, faulty),
        _looked_all_the_time(after, (*wanted, *left, *always)),
    )
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


def _chain(case: Case, cured: Sequence[Finding], proof: Collection[str]) -> list[Finding]:
    """All that must stay away: what was fixed with its other episodes, what the remedies name, what followed."""
    fixed = {(it.sign, it.subject) for it in cured}
    signs = {*proof} - {it.sign for it in cured}
    again = [it for it in case.findings if (it.sign, it.subject) in fixed or it.sign in signs]
    return list(dict.fromkeys([*cured, *again, *(link.effect for link in _followed(case, cured))]))


def _wanted(
    chain: Sequence[Finding], cured: Sequence[Finding], proof: Collection[str], left: Collection[str]
) -> dict[str, set[str]]:
    """Signs that must be clear, and of what; what a fix leaves behind is checked separately: it must not grow."""
    wanted: dict[str, set[str]] = {sign: set() for sign in (*(it.sign for it in cured), *proof)}
    for finding in chain:
        if finding.sign in wanted or finding.sign not in left:
            wanted.setdefault(finding.sign, set()).add(finding.subject)
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
    """Clear on every subject: a fault that moved to another core is not fixed. What others had before is left out."""
    verdict = next((it for it in after.case.verdicts if it.sign == sign), Verdict(sign=sign, state="blind"))
    was = next((it.evidence[0] for it in before.case.findings if it.sign == sign), None)
    now = verdict.evidence[0] if verdict.evidence else None
    of = f" of {', '.join(sorted(subjects))}" if subjects else ""
    found = [it for it in _since_the_fix(after) if it.sign == sign]
    others = {it.subject for it in before.case.findings if it.sign == sign} - subjects if subjects else set()
    again = [it for it in found if it.subject not in others]
    check = Check(name=f"{sign}{of}", state="held", says=verdict.says or "clear", before=was, after=now)
    if again:
        moved = " (not there before the fix)" if subjects and again[0].subject not in subjects else ""
        says = f"{again[0].subject}{moved}: {again[0].says}"
        return replace(check, state="failed", says=says, after=again[0].evidence[0])
    if verdict.state in ("blind", "broken"):
        return replace(check, state="blind", says=verdict.says or f"nothing looked for {sign}")
    if verdict.state == "found":
        same = f"only of {', '.join(sorted({it.subject for it in found}))}, as before the fix"
        return replace(check, says=same if found else "none since the fix")
    return check


def _since_the_fix(after: Examined) -> list[Finding]:
    """The kernel's log reaches back to before the fix: only what went on after it counts."""
    began = after.timeline.span.start - SLACK
    return [it for it in after.case.findings if it.span.end >= began]


def _nothing_new(before: Case, after: Examined) -> Check:
    """Whether no symptom came up that was not there before and that nothing explains: the fix may have made it."""
    known = {(it.sign, it.subject) for it in before.findings}
    unexplained = {it.finding for it in after.case.unexplained}
    new = [
        it for it in _since_the_fix(after) if it.symptom and it in unexplained and (it.sign, it.subject) not in known
    ]
    name = "no new symptom without a cause"
    if new:
        says = f"{new[0].sign} of {new[0].subject}: {new[0].says}" + (f"; {len(new) - 1} more" if len(new) > 1 else "")
        return Check(name=name, state="failed", says=says, after=new[0].evidence[0])
    symptoms = sum(it.symptom for it in _since_the_fix(after))
    return Check(name=name, state="held", says=f"{symptoms} symptoms found, none of them new and without a cause")


def _whole_window(after: Examined, window: float | None) -> Check:
    name, seconds = "the whole window", after.timeline.span.seconds
    if window is None:
        return Check(name=name, state="held", says=f"the whole recording: {lasting(seconds)}")
    whole = seconds >= window - CUT_SECONDS - CUT_SHARE * window
    says = f"{lasting(seconds)} of {lasting(window)}" + ("" if whole else ": it was cut short")
    return Check(name=name, state="held" if whole else "blind", says=says)


def _looked_all_the_time(after: Examined, signs: Collection[str]) -> Check:
    """The longest time in which something that a sign needs was not read."""
    span, room = after.timeline.span, healthy("signs")
    worst: tuple[float, str] = (0.0, "")
    for need in {need for sign in signs if sign in room for need in room[sign].NEEDS}:
        whats = (need,) if isinstance(need, str) else need
        gaps = [gap for what in whats if (gap := _longest_gap(after.timeline, what, span)) is not None]
        if gaps:
            worst = max(worst, (min(gaps), whats[0]))
    name = "was looked at all the time"
    if worst[0]:
        return Check(name=name, state="blind", says=f"nothing read {worst[1]} for {lasting(worst[0])}")
    return Check(name=name, state="held", says=f"for {lasting(span.seconds)}")


def _longest_gap(timeline: Timeline, what: str, span: Span) -> float | None:
    """0 if it was read as often as usual; None if never, which makes its sign blind anyway."""
    looks = timeline.looks(what)
    times = looks.at[looks.values > 0]
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
        if (link.law, link.cause, link.effect) in taken and held.issuperset((link.cause.sign, link.effect.sign))
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
