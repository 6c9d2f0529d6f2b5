"""One generic way to change a threshold or a pace: `--set member.CONST=value`. There is no configuration file."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from types import ModuleType

from zombiescope.core import UserError
from zombiescope.diagnosis import harm
from zombiescope.members.rooms import healthy

ROOMS = ("signs", "probes", "laws", "questions")
ENGINE = {"harm": harm}  # what decides an accusation, whatever the sign


def override(wanted: Sequence[str]) -> tuple[str, ...]:
    """Set each `member.CONST=value` for the rest of this process; returns them as they will stand in the report."""
    found = {name: member for room in ROOMS for name, member in healthy(room).items()} if wanted else {}
    members = found | ENGINE
    return tuple(_set(item, members) for item in wanted)


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


def _set(item: str, members: dict[str, ModuleType]) -> str:
    address, equals, text = item.partition("=")
    name, dot, constant = address.partition(".")
    if not (equals and dot):
        raise UserError(f"--set takes MEMBER.CONST=VALUE, such as saturated_core.FULL=0.8, not {item!r}")
    if name not in members:
        raise UserError(f"--set: no sign, probe or law is called {name!r}{_meant(name, members)}")
    known = constants(members[name])
    if constant not in known:
        raise UserError(f"--set: {name} has no number called {constant!r}; it has {', '.join(known) or 'none'}")
    try:
        value = type(known[constant])(text)
    except ValueError:
        raise UserError(f"--set: {text!r} is not a number like {name}.{constant}={known[constant]}") from None
    # A pace of zero would be a busy loop, and a threshold below zero finds everything: neither is ever meant.
    if not 0 <= value < float("inf") or (constant == "EVERY" and value < 0.01):
        raise UserError(f"--set: {name}.{constant}={text} is out of range")
    setattr(members[name], constant, value)
    return f"{name}.{constant}={value}"


def _meant(name: str, members: dict[str, ModuleType]) -> str:
    near = difflib.get_close_matches(name, members, n=1)
    return f"; did you mean {near[0]}?" if near else ""
