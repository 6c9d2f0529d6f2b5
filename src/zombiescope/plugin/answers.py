"""What a pod answered: JSON of `diagnose`, its shape checked, its texts cleaned, its commands compared with ours.

A pod runs what somebody put into it. So its answer is data, whoever owns the pod: a command that none of our remedies
plans is taken out, with the reason in its place.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from zombiescope.core import UserError, harmless
from zombiescope.plugin.own_commands import is_ours, is_own_program

REFUSED = "a command that no remedy of ours plans was taken out"
PLANS, STEPS, WORDS = 2_000, 200, 500  # of each at most: a node in trouble has dozens of plans, a step fifty scopes
LONGEST = 100_000  # characters of one text: what a step reads may be a unit's file
KINDS = ("safe", "disruptive", "advice")


def answer(text: str, node: str, complaint: str = "") -> dict[str, Any]:
    """The answer, or a UserError that says which node gave none."""
    try:
        told = json.loads(text, parse_constant=_refused)
        if not isinstance(told, dict) or not isinstance(told.get("findings"), list):
            raise ValueError("not an answer")
        remedies = told["remedies"]
        if not isinstance(remedies, list) or len(remedies) > PLANS:
            raise ValueError("not a list of remedies")
        plans = [_plan(it) for it in remedies]
        return {harmless(key): _clean(it) for key, it in told.items()} | {"remedies": plans}
    except (ValueError, KeyError, TypeError, RecursionError):
        why = harmless(complaint.strip()[-200:])
        raise UserError(f"no answer from {node} that can be understood{f': {why}' if why else ''}") from None


def _plan(told: Mapping[str, Any]) -> dict[str, Any]:
    name, cures, subject, risk = (_text(told[key]) for key in ("name", "cures", "subject", "risk"))
    if risk not in KINDS or not isinstance(told["steps"], list) or len(told["steps"]) > STEPS:
        raise ValueError("not a plan")
    steps = [_step(it) for it in told["steps"]]
    acts = [it for it in steps if it["argv"]]
    known = (is_own_program(it["argv"]) or is_ours(name, subject, it["argv"], it["stdin"]) for it in acts)
    strange = not all(known)
    if strange:
        # Steps of one plan belong together: without one of them the others are not what was planned.
        steps = [{"says": it["says"], "argv": [], "stdin": "", "risk": "advice"} for it in steps]
    plan = {"name": harmless(name), "cures": harmless(cures), "subject": harmless(subject), "risk": risk}
    return plan | {"command": "", "steps": steps, "refused": REFUSED if strange else ""}


def _step(told: Mapping[str, Any]) -> dict[str, Any]:
    """`argv` and `stdin` as they came: cleaned they would be another command. They are compared instead."""
    argv = told["argv"]
    if not isinstance(argv, list) or len(argv) > WORDS or told["risk"] not in KINDS:
        raise ValueError("not a step")
    says = harmless(_text(told["says"]), most=2000)
    return {"says": says, "argv": [_text(it) for it in argv], "stdin": _text(told["stdin"]), "risk": told["risk"]}


def _text(told: object) -> str:
    if not isinstance(told, str) or len(told) > LONGEST:
        raise ValueError("not a text")
    return told


def _clean(told: Any) -> Any:
    if isinstance(told, str):
        return harmless(told, most=2000)
    if isinstance(told, list):
        return [_clean(it) for it in told]
    if isinstance(told, dict):
        return {harmless(key): _clean(it) for key, it in told.items()}
    return told


def _refused(name: str) -> object:
    raise ValueError(f"{name} is no JSON")
