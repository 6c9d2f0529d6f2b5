"""Whether a step, and what is said of files around it, can be a remedy's own: nothing else is run or restored.

A remedy says which forms its steps have (FORMS). What a step may change is its unit's files, the links that systemctl
makes, and the files that it names; see treatment/kept.py.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from types import ModuleType
from typing import Any

from zombiescope.core import Plan, Step, UserError, harmless
from zombiescope.core.forms import Form
from zombiescope.members.rooms import member
from zombiescope.treatment.kept import DEPENDENCIES, RUNLEVELS, TOPS, is_setting, unit_files
from zombiescope.treatment.ledger import Fix

_NAME = r"(?!\.\.?(?:/|$))[^/\x00]+"  # in a path: neither `.` nor `..`
_BELOW = re.compile(rf"(?:/{_NAME})+")
_LINK = re.compile(rf"(?:{'|'.join((*TOPS, *RUNLEVELS))})/{_NAME}")
_DEPENDENCY = re.compile(rf"(?:{'|'.join(TOPS)})/[^/\x00]+(?:{'|'.join(map(re.escape, DEPENDENCIES))})/{_NAME}")


def refuse_unknown(plan: Plan, steps: list[Step]) -> None:
    """A plan that could not be undone later, since nobody would know its steps for a remedy's own."""
    forms = _forms(plan.name)
    for step in steps:
        if not any(form.fits(step) for form in forms):
            says = f"{plan.name}: its FORMS have none for this step: {' '.join(step.argv)}"
            raise UserError(harmless(f"{says}: the remedy has to name every command that it makes", most=1000))


def refuse_forged(fix: Fix, path: str) -> None:
    """UserError, with the line, if a fix in the ledger at `path` is not what the remedy that it names can have made."""
    forms = _forms(fix.plan["name"])
    for number in range(len(fix.plan["steps"])):
        if not any(form.fits(step_of(fix, number)) for form in forms):
            made = f"step {number + 1} is not one that {fix.plan['name']} makes"
            raise UserError(_refusal(fix, path, fix.events[0], made))
    for event in fix.events:
        told = {"begins": "before", "done": "after"}.get(event["event"])
        if told is None:
            continue
        step = step_of(fix, event["step"])
        for file, state in event[told]["files"].items():
            if not _may_be(file, state, step):
                raise UserError(_refusal(fix, path, event, f"step {event['step'] + 1} does not change {file}"))


def step_of(fix: Fix, number: int) -> Step:
    written: dict[str, Any] = fix.plan["steps"][number]
    words: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in written.items()
        if name in Step.__dataclass_fields__
    }
    return Step(**words)


def _forms(remedy: str) -> tuple[Form, ...]:
    found = member("remedies", remedy) if re.fullmatch("[a-z][a-z0-9_]*", remedy) else None
    return getattr(found, "FORMS", ()) if isinstance(found, ModuleType) else ()


def _may_be(path: str, state: Mapping[str, Any], step: Step) -> bool:
    """Whether this can be the state of a path that the step may change."""
    kind: str = state["kind"]
    if kind in ("file", "setting") and (kind == "setting") != is_setting(path):
        return False
    own = [*(unit_files(step.unit) if step.unit else ()), *step.keeps]
    if any(path == it or (path.startswith(it) and _BELOW.fullmatch(path, len(it))) for it in own):
        return True
    if not step.unit or step.unit.endswith(".scope"):
        return False
    if _DEPENDENCY.fullmatch(path):
        return kind in ("link", "absent")
    if _LINK.fullmatch(path):
        return kind in ("link", "absent") or (kind == "folder" and path.endswith(DEPENDENCIES))
    return False


def _refusal(fix: Fix, path: str, event: Mapping[str, Any], says: str) -> str:
    blocks = fix.state in ("interrupted", "failed")
    rest = f"; --abandon {fix.id} --why TEXT gives it up" if blocks else ""
    says = (
        f"{path}, line {event['line']}: {says}: somebody else, or another version, wrote it, so nothing is done{rest}"
    )
    return harmless(says, most=1000)
