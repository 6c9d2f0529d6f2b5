"""In which order remedies are offered, and which of them `fix` means without being asked: the same in every report."""

from __future__ import annotations

from zombiescope.core.commands import command
from zombiescope.core.model import Case, Plan, Step

_KINDS = ("safe", "disruptive", "advice")


def offers(case: Case) -> list[Plan]:
    """All plans: the safe fix of a root cause first, what disrupts after what is safe, then advice; a reboot last."""
    roots = case.root_causes

    def place(plan: Plan) -> tuple[bool, int, int, bool]:
        root = roots.index(plan.cures) if plan.cures in roots else len(roots)
        # Cleaning up comes after stopping the cause, or more would pile up.
        return plan.last_resort, _KINDS.index(kind(plan)), root, plan.aftermath

    return sorted(case.plans, key=place)


def meant(case: Case) -> list[Plan]:
    """For the root causes, and for what they left behind where that does harm: an effect of it was found.

    One for each finding: of several the first that is offered.
    """
    roots, harmful = case.root_causes, {link.cause for link in case.links} - case.set_aside
    wanted = [plan for plan in offers(case) if plan.cures in roots or (plan.aftermath and plan.cures in harmful)]
    return first_of_each(wanted)


def first_of_each(plans: list[Plan]) -> list[Plan]:
    best: dict[object, Plan] = {}
    for plan in plans:
        best.setdefault(plan.cures, plan)
    return [plan for plan in plans if best[plan.cures] is plan]


def kind(plan: Plan) -> str:
    """safe, disruptive, or advice: there is no command in it."""
    return "advice" if plan.advice else plan.risk


def kind_of(plan: Plan, step: Step) -> str:
    return plan.risk_of(step) if step.argv else "advice"


def pasted(step: Step) -> str:
    """A step as one command of a shell, whole; "" if it has none that can be shown."""
    return command(*step.argv, stdin=step.stdin)
