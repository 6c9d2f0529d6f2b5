"""What a member must have so that the rooms can use it at all. Who has less is broken, and says what is missing.

This is the part of the contract that the engine relies on without asking again. `zombiescope check` and the tests of
our own members ask for more: words, reasons, silence on a healthy node.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from types import ModuleType
from typing import Any

from zombiescope.core.witness import Witness

Test = Callable[[Any], bool]


def _number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _texts(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(it, str) for it in value)


def _needs(value: Any) -> bool:
    return isinstance(value, tuple | list) and all(isinstance(it, str) or (it and _texts(it)) for it in value)


HOW = ("most", "all", "longest")  # subjects become one curve


def _curves(value: Any) -> bool:
    return isinstance(value, tuple) and all(_texts(it) and len(it) == 4 and it[3] in HOW for it in value)


def _truth(value: Any) -> bool:
    return all(hasattr(value, it) for it in ("root", "chain", "also", "silent", "innocent", "harmless", "names"))


_PACE: tuple[Test, str] = (lambda it: _number(it) and it > 0, "a number of seconds above 0")
_SECONDS: tuple[Test, str] = (lambda it: _number(it) and it >= 0, "a number of seconds, 0 or more")
_NAMES: tuple[Test, str] = (lambda it: _texts(it) and bool(it), "a tuple of names, at least one")
_NEEDS: tuple[Test, str] = (lambda it: _needs(it) and bool(it), "a tuple of names of readings, at least one")
_LIST: tuple[Test, str] = (_texts, "a tuple of names, or an empty one")
_TEXT: tuple[Test, str] = (lambda it: isinstance(it, str) and bool(it.strip()), "a text")
_CALL: tuple[Test, str] = (callable, "a function")
_FORMS: tuple[Test, str] = (
    lambda it: isinstance(it, tuple) and all(callable(getattr(one, "fits", None)) for one in it),
    "a tuple of forms of zombiescope.core.forms",
)
_RESTS_ON: tuple[Test, str] = (
    lambda it: isinstance(it, dict) and bool(it) and all(isinstance(one, Witness) for one in it.values()),
    "a dict of series, each with its zombiescope.core.witness.Witness",
)
_WITNESS: tuple[Test, str] = (lambda it: isinstance(it, Witness), "a Witness of zombiescope.core.witness")
_TRUTH: tuple[Test, str] = (_truth, "a Truth of zombiescope.lab._scenario")

HAS: dict[str, dict[str, tuple[Test, str]]] = {
    "probes": {"EVERY": _PACE, "GIVES": _NAMES, "read": _CALL},
    "signs": {"NEEDS": _NEEDS, "find": _CALL},
    "laws": {"WITHIN": _SECONDS, "grounds": _CALL},
    "questions": {"ASKS": _TEXT, "answer": _CALL},
    "remedies": {"CURES": _NAMES, "plan": _CALL},
    "outputs": {"write": _CALL},
    "gate": {"WHEN": _NAMES, "look": _CALL, "saw": _CALL},
    "lab": {"TRUTH": _TRUTH, "NEEDS": _LIST, "SECONDS": _PACE, "run": _CALL},
    "cli": {"__doc__": _TEXT, "EXAMPLES": _TEXT, "add_args": _CALL, "run": _CALL},
}

# Flags that tell the engine more about a member: none is needed, but one that is there must be what is meant.
_FLAG: tuple[Test, str] = (lambda it: isinstance(it, bool), "True or False")
MAY_HAVE: dict[str, dict[str, tuple[Test, str]]] = {
    "probes": {
        "EVENTS": _LIST,
        "WITNESS": _WITNESS,
        "CURVES": (_curves, "a tuple of (name, unit, series, most, all or longest)"),
        "FILES": (lambda it: isinstance(it, tuple) and _texts(it) and bool(it), "a tuple of paths, at least one"),
        "readings": _CALL,
        "watch": _CALL,
    },
    "signs": {
        "SYMPTOM": _FLAG,
        "LEFT_BEHIND": _FLAG,
        "DEFAULT_EVENT": _FLAG,
        "ALWAYS_PROVED": _TEXT,
        "NEXT": _TEXT,
        "saw": _CALL,
        "curves": _CALL,
        "does_not_grow": _CALL,
    },
    "laws": {"lacks": _CALL, "rules_out": _CALL},
    "remedies": {"AFTERMATH": _FLAG, "LAST_RESORT": _FLAG, "FORMS": _FORMS, "RESTS_ON": _RESTS_ON},
    "gate": {"SIGNS": _LIST, "NEEDS": _NEEDS, "NEEDS_LIST": _FLAG},
}


def why_unusable(room: str, member: ModuleType) -> str:
    """What a member lacks; empty if nothing."""
    for name, (fits, what) in HAS.get(room, {}).items():
        if not hasattr(member, name):
            return f"it has no {name}: {what} is needed"
        if not fits(getattr(member, name)):
            return f"its {name} is not {what}"
    for name, (fits, what) in MAY_HAVE.get(room, {}).items():
        if hasattr(member, name) and not fits(getattr(member, name)):
            return f"its {name} is not {what}"
    if room == "probes" and hasattr(member, "FILES") and not hasattr(member, "readings"):
        return "it has FILES and no readings(samples), which parses them"
    if room == "signs" and getattr(member, "LEFT_BEHIND", False) and not hasattr(member, "does_not_grow"):
        return "it is LEFT_BEHIND and has no does_not_grow(before, after)"
    return ""


def why_joins_nothing(law: str, laws: Iterable[str], signs: Collection[str]) -> str:
    """Why a law cannot join: it is not called CAUSE_to_EFFECT after two signs, or with `laws` it closes a circle."""
    cause, to, effect = law.partition("_to_")
    if not to:
        return "a law is called CAUSE_to_EFFECT, after the two signs that it joins"
    for sign in (cause, effect):
        if sign not in signs:
            return f"it joins {sign}, and there is no such sign"
    if (circle := _way(effect, cause, laws)) is not None:
        return f"it closes a circle: {' → '.join([cause, *circle])}"
    return ""


def why_names_nothing(room: str, member: ModuleType, signs: Collection[str]) -> str:
    """Whether a remedy, or a rule of the gate, names a sign that does not exist."""
    constant = {"remedies": "CURES", "gate": "SIGNS"}.get(room, "")
    unknown = [sign for sign in getattr(member, constant, ()) if sign not in signs] if constant else []
    return f"its {constant} names {unknown[0]}, and there is no such sign" if unknown else ""


def _way(start: str, goal: str, laws: Iterable[str]) -> list[str] | None:
    """Signs from `start` to `goal` along laws, both included."""
    after: dict[str, list[str]] = {}
    for law in laws:
        cause, _, effect = law.partition("_to_")
        after.setdefault(cause, []).append(effect)
    ways, seen = [[start]], {start}
    while ways:
        way = ways.pop(0)
        if way[-1] == goal:
            return way
        fresh = [it for it in after.get(way[-1], []) if it not in seen]
        seen.update(fresh)
        ways += [[*way, it] for it in fresh]
    return None
