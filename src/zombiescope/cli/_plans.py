"""Which plans `fix` shows or applies, why one is refused, and how they are printed."""

from __future__ import annotations

import textwrap
from collections.abc import Collection, Iterator
from typing import Any, TextIO

from zombiescope.cli._parser import did_you_mean
from zombiescope.core import Case, Plan, UserError, harmless
from zombiescope.core.commands import command
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.describe import describe
from zombiescope.diagnosis.examine import planned
from zombiescope.diagnosis.unattended import why_watched
from zombiescope.members.rooms import healthy, names
from zombiescope.outputs._offers import first_of_each, kind, kind_of, meant, offers
from zombiescope.outputs._story import of_recording
from zombiescope.places.sample import SAMPLE
from zombiescope.treatment.apply import Machine, shown

_WIDTH = 110


def chosen(case: Case, timeline: Timeline, wanted: str, machine: Machine, *, unattended: bool = False) -> list[Plan]:
    """One plan for each finding that is asked for; by default the root causes and what they left behind to do harm.

    `wanted` names a remedy, a sign, a subject or a unit; a remedy that is named plans for what there is, found or not.
    Of several remedies the first safe one is taken; where nobody watches, of those that rest on facts which no
    container can choose.
    """
    if not wanted:
        return _trusted(meant(case)) if unattended else meant(case)
    named = [plan for plan in offers(case) if wanted in names_of(plan.name, plan.cures.sign, plan.cures.subject)]
    if not named and not unattended:  # a person asks for this remedy
        named = list(planned(wanted, case, timeline))
    if not named:
        _no_such(case, wanted, machine)
    return first_of_each(_trusted(named) if unattended else named)


def _trusted(plans: list[Plan]) -> list[Plan]:
    reasons = {plan.name: why_watched(plan) for plan in plans if not plan.advice}
    trusted = [plan for plan in plans if reasons.get(plan.name) == ""]
    if not trusted:
        why = "; ".join(map(harmless, reasons.values())) or "every plan for it is advice"
        raise UserError(f"refused, nothing was changed: {why}: a person has to decide")
    return trusted


def names_of(remedy: str, sign: str, subject: str) -> set[str]:
    """The names by which a person may ask for a plan."""
    return {remedy, sign, subject, subject.partition(":")[2], f"{sign}:{subject}"}


def _no_such(case: Case, wanted: str, machine: Machine) -> None:
    from zombiescope.treatment.essential import why_essential

    unit = wanted.removeprefix("unit:")
    if "." in unit and "/" not in unit and (why := why_essential(unit, machine.units)):
        raise UserError(f"{harmless(unit)} is essential ({why}) and no finding accuses it: refused")
    verdict = next((it for it in case.verdicts if it.sign == wanted), None)
    if verdict is not None and verdict.state in ("blind", "broken"):
        raise UserError(
            f"{wanted} is {verdict.state} ({harmless(verdict.says)}): nothing is fixed that could not be checked"
        )
    if verdict is not None and verdict.state == "clear":
        raise UserError(f"{wanted} is clear: nothing to fix")
    if wanted in names("remedies"):
        raise UserError(f"{wanted}: there is nothing here for it to do")
    there = {it for plan in case.plans for it in names_of(plan.name, plan.cures.sign, plan.cures.subject)}
    if meant := did_you_mean([wanted], map(harmless, {*there, *(it.sign for it in case.verdicts)})):
        raise UserError(f"{harmless(wanted)!r}: no plan for it{meant}")
    known = ", ".join(sorted({f"{harmless(plan.cures.subject)}" for plan in case.plans})) or "nothing"
    found = ", ".join(sorted({it.sign for it in case.findings})) or "nothing"
    raise UserError(f"{harmless(wanted)!r}: no plan for it; findings: {found}; plans for: {known}")


def refusal(plan: Plan, case: Case, machine: Machine, forced: Collection[str], disruptive: bool) -> str:
    """Why a plan is not applied; empty if it can be."""
    from zombiescope.treatment.essential import why_essential

    if plan.advice:
        return "it is advice: there is no command to run"
    if plan.risk == "disruptive" and not disruptive:
        return "it disrupts the node's work: add --allow-disruptive to allow that"
    for sign in plan.proof:
        verdict = next((it for it in case.verdicts if it.sign == sign), None)
        if verdict is None or verdict.state in ("blind", "broken"):
            why = harmless(verdict.says) if verdict is not None else "no such sign"
            return f"its effect could not be checked: {sign} is blind ({why})"
    for unit in dict.fromkeys(step.unit for step in plan.steps if step.unit):
        if unit not in forced and (why := why_essential(unit, machine.units)):
            return f"{unit} is essential: {why}; to fix it all the same, add --force-essential {harmless(unit)}"
    return ""


def as_json(plan: Plan, machine: Machine, why_not: str = "") -> dict[str, Any]:
    return {
        "name": plan.name,
        "cures": {"sign": plan.cures.sign, "subject": plan.cures.subject, "says": plan.cures.says},
        "risk": kind(plan),
        "advice": plan.advice,
        "refused": why_not,
        "proof": list(plan.proof),
        "steps": [
            {
                "says": step.says,
                "command": shown(machine, step) if step.argv else "",
                "argv": list(step.argv),
                "stdin": step.stdin,
                "risk": kind_of(plan, step),
                "unit": step.unit,
                "keeps": list(step.keeps),
                "undo": list(step.undo),
            }
            for step in plan.steps
        ],
    }


def write_text(
    plans: list[Plan], others: list[Plan], machine: Machine, refused: dict[str, str], recording: str, out: TextIO
) -> None:
    for plan in plans:
        for line in _lines(plan, machine, refused.get(plan.name, "")):
            print(line, file=out)
        print(file=out)
    if others:
        print("other plans, each by its name:", file=out)
        of = ("--sample",) if recording == SAMPLE else of_recording(recording)
        lines = [
            f"  {command('zombiescope', 'fix', it.name, *of)}  ({kind(it)}, for {harmless(it.cures.subject)})"
            for it in others
        ]
        print("\n".join(dict.fromkeys(lines)), file=out)


def _lines(plan: Plan, machine: Machine, why_not: str) -> Iterator[str]:
    yield f"{plan.name} ({kind(plan)}): for {plan.cures.sign} of {harmless(plan.cures.subject)}"
    yield from _wrapped(harmless(plan.cures.says, most=1000), "  found: ")
    for number, step in enumerate(plan.steps, 1):
        risk = f" [{kind_of(plan, step)}]" if kind_of(plan, step) != kind(plan) else ""
        yield from _wrapped(harmless(step.says, most=1000) + risk, f"  {number}. ")
        if step.argv:
            yield f"     $ {shown(machine, step)}"  # whole: a part of it would be another command
    if not plan.advice:
        kept = sorted({word for step in plan.steps for word in (step.unit, *step.keeps) if word})
        undone = [command(*step.undo) for step in plan.steps if step.undo]
        how = [f"{', '.join(map(harmless, kept))} restored byte for byte"] if kept else []
        yield from _wrapped(
            "; ".join(how + undone) or "cannot be undone; it leaves nothing behind that would need it", "  undo: "
        )
    remedy = healthy("remedies").get(plan.name)
    if remedy is not None and (limits := describe(remedy).sections.get("Does not fix")):
        yield from _wrapped(limits, "  does not fix: ")
    if plan.proof:
        yield f"  proved when these are clear: {', '.join(plan.proof)}"
    if why_not:
        yield from _wrapped(why_not, "  REFUSED: ")


def _wrapped(text: str, head: str) -> list[str]:
    return textwrap.wrap(text, _WIDTH, initial_indent=head, subsequent_indent=" " * len(head)) or [head.rstrip()]
