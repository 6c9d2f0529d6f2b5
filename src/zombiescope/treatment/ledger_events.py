"""The events of the ledger: what each must hold, and what is true of the node where its line could not be written."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Event = dict[str, Any]
Test = Callable[[Any], bool]
PROOF = re.compile(r"[0-9]{8}T[0-9]{6}Z-[0-9]{1,10}", re.ASCII)  # the name of a proof's folder
PROVING, PROVED = "proving", "proved"  # events of a proof: they come after the fix, and are no part of its state


@dataclass(frozen=True, slots=True)
class Kind:
    """One kind of event. `{step}` in its words is the number of the step, as people count."""

    unwritten: str
    has: Mapping[str, Test] = field(default_factory=dict)


def _text(value: Any) -> bool:
    return isinstance(value, str)


def _texts(value: Any) -> bool:
    return isinstance(value, list) and all(map(_text, value))


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e15


def _place(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10_000


def _identity(value: Any) -> bool:
    return _text(value) and value.isascii() and value.isdecimal() and len(value) < 10


def _holds(**tests: Test) -> Test:
    """A mapping that has these keys; others are let be."""
    return lambda value: (
        isinstance(value, dict) and all(name in value and fits(value[name]) for name, fits in tests.items())
    )


def _list_of(fits: Test) -> Test:
    return lambda value: isinstance(value, list) and all(map(fits, value))


def _state(value: Any) -> bool:
    """Of a file: one that treatment/kept.py makes. Which paths it may be of, own_steps.py checks."""
    if not isinstance(value, dict) or value.get("kind") not in _STATES:
        return False
    needed = _STATES[value["kind"]]
    return value.keys() == {"kind", *needed} and all(fits(value[name]) for name, fits in needed.items())


def _owner(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 32


_OWNED: dict[str, Test] = {"mode": lambda it: _owner(it) and it <= 0o7777, "uid": _owner, "gid": _owner}
_STATES: dict[str, dict[str, Test]] = {
    "absent": {},
    "link": {"to": lambda it: _text(it) and it != "" and "\0" not in it},
    "folder": _OWNED,
    "file": {"content": _text} | _OWNED,
    "setting": {"content": _text},
}


def _files(value: Any) -> bool:
    return isinstance(value, dict) and all(map(_state, value.values()))


_STEP = _holds(says=_text, argv=_texts, stdin=_text, undo=_texts, unit=_text, keeps=_texts, risk=_text)
_PLAN = _holds(
    name=_text,
    cures=_holds(sign=_text, subject=_text, says=_text),
    risk=_text,
    proof=_texts,
    steps=_list_of(_STEP),
)
_BEFORE = _holds(files=_files, runs=_text, disables=lambda it: it is None or _texts(it))
_WHO = _holds(user=_text)
_CHECK = _holds(name=_text, state=_text, says=_text)

EVENTS = {
    "planned": Kind("this fix was not begun, and changed nothing", {"plan": _PLAN, "who": _WHO}),
    "begins": Kind("step {step} was not begun; what was done before it stays", {"step": _place, "before": _BEFORE}),
    "done": Kind(
        "step {step} was done, and that is not noted: --undo takes it back, --resume does it once more",
        {"step": _place, "after": _holds(files=_files)},
    ),
    "failed": Kind("step {step} failed, and that is not noted", {"step": _place, "why": _text}),
    "finished": Kind("every step was done, and the end is not noted: --resume notes it"),
    "resumed": Kind("it did not go on; what was done before stays"),
    "undoing all": Kind("nothing was undone"),
    "undoing": Kind("step {step} was not undone: --undo goes on", {"step": _place, "commands": _texts}),
    "step undone": Kind("step {step} was undone, and that is not noted: --undo does it once more", {"step": _place}),
    "undone": Kind("all was undone, and the end is not noted: --undo notes it"),
    "abandoned": Kind("it is not abandoned", {"why": _text}),
    PROVING: Kind(
        "its proof was not begun; the fix stays",
        {
            "folder": lambda it: _text(it) and PROOF.fullmatch(os.path.basename(it)) is not None,
            "until": _number,
            "window": _number,
            "hz": _place,
            "settings": _texts,
            "cured": _list_of(lambda it: _texts(it) and len(it) == 2),
            "signs": _texts,
            "fixes": _list_of(_identity),
        },
    ),
    PROVED: Kind("the proof has ended, and its result is not noted", {"state": _text, "checks": _list_of(_CHECK)}),
}


def why_not_ours(event: Any, plan: Mapping[str, Any] | None) -> str:
    """Why a line cannot have been written by us; `plan`: that of its fix, as planned in an earlier line."""
    if not isinstance(event, dict) or not _holds(fix=_identity, at=_number, event=_text)(event):
        return "it is not an event of a fix"
    kind = EVENTS.get(event["event"])
    if kind is None:
        return f"{event['event']!r} is no event of a fix"
    for name, fits in kind.has.items():
        if name not in event or not fits(event[name]):
            return f"the {name} of its event {event['event']!r} is not what zombiescope writes"
    if (plan is None) != (event["event"] == "planned"):
        return "its fix was not planned before" if plan is None else "its fix was planned before"
    if plan is not None and event.get("step", -1) >= len(plan["steps"]):
        return f"its fix has {len(plan['steps'])} steps, and it is about step {event['step'] + 1}"
    return ""


def unwritten(event: str, step: int | None) -> str:
    """What is true where the line of this event could not be written."""
    return EVENTS[event].unwritten.format(step=step + 1 if step is not None else "")
