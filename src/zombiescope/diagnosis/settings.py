"""One generic way to change a threshold or a pace: `--set member.CONST=value`. There is no configuration file."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from types import ModuleType

from zombiescope.core import UserError
from zombiescope.members.rooms import Broken, healthy, member, names

ROOMS = ("signs", "probes", "laws", "questions")
ENGINE = {"harm": "zombiescope.diagnosis.harm"}  # what decides an accusation, whatever the sign


def override(wanted: Sequence[str]) -> tuple[str, ...]:
    """Set each `member.CONST=value` for the rest of this process; returns them as they will stand in the report.

    No other member is loaded: the recorder has no use for signs, nor for numpy, which they need.
    """
    return tuple(map(_set, wanted))


def reach_back(seconds: float) -> None:
    """Let every probe that reads what was logged before the first sample (PAST) read at least so far back."""
    for probe in healthy("probes").values() if seconds else ():
        if "PAST" in constants(probe):
            vars(probe)["PAST"] = max(vars(probe)["PAST"], seconds)


def constants(member: ModuleType) -> dict[str, float]:
    """The numbers that a member may be told otherwise."""
    return {
        name: value
        for name, value in vars(member).items()
        if name.isupper()
        and not name.startswith("_")
        and isinstance(value, int | float)
        and not isinstance(value, bool)
    }


def _set(item: str) -> str:
    address, equals, text = item.partition("=")
    name, dot, constant = address.partition(".")
    if not (equals and dot):
        raise UserError(f"--set takes MEMBER.CONST=VALUE, such as saturated_core.FULL=0.8, not {item!r}")
    its = _found(name)
    known = constants(its)
    if constant not in known:
        raise UserError(f"--set: {name} has no number called {constant!r}; it has {', '.join(known) or 'none'}")
    try:
        value = type(known[constant])(text)
    except ValueError:
        raise UserError(f"--set: {text!r} is not a number like {name}.{constant}={known[constant]}") from None
    # A pace of zero would be a busy loop, and a threshold below zero finds everything: neither is ever meant.
    if not 0 <= value < float("inf") or (constant == "EVERY" and value < 0.01):
        raise UserError(f"--set: {name}.{constant}={text} is out of range")
    setattr(its, constant, value)
    return f"{name}.{constant}={value}"


def _found(name: str) -> ModuleType:
    if name in ENGINE:
        return import_module(ENGINE[name])
    for room in reversed(ROOMS):  # a probe and a sign of the same name: the probe
        if name in names(room) and not isinstance(found := member(room, name), Broken):
            return found
    import difflib

    near = difflib.get_close_matches(name, [*ENGINE, *(it for room in ROOMS for it in names(room))], n=1)
    meant = f"; did you mean {near[0]}?" if near else ""
    raise UserError(f"--set: no sign, probe or law is called {name!r}{meant}")
