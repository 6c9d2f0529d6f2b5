"""What a rule says about an image: an objection, and the ruling over all of them."""

from __future__ import annotations

import shlex
from dataclasses import dataclass

from zombiescope.core import Blind

# An error fails the gate. A note does not, unless --strict is given.
LEVELS = ("error", "note")
STATES = ("fail", "pass", "blind", "skipped")
# What is checked: an image that is not running, a machine read once, a machine watched for minutes.
OCCASIONS = ("image", "look", "soak")


def command(verb: str, unit: str) -> str:
    """A systemctl command that is safe to paste: a unit's file may have any name, also one that is an option."""
    return f"systemctl {verb} {'-- ' if unit.startswith('-') else ''}{shlex.quote(unit)}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """Why an objection is accepted, and until when."""

    reason: str
    expires: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Objection:
    """One thing that should not ship."""

    subject: str  # "unit:ecs.service", "kernel:5.4.0-1103-aws", "controller:memory"
    says: str
    where: str  # a path in the image, or "$ command" on a machine
    level: str = "error"  # one of LEVELS
    fix: tuple[str, ...] = ()
    rule: str = ""  # the rule's file name, set when the rule has run
    accepted: Accepted | None = None

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"no such level: {self.level}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """The result of one rule. What could not be read never passes."""

    rule: str
    state: str  # one of STATES
    says: str = ""
    objections: tuple[Objection, ...] = ()
    unseen: tuple[Blind, ...] = ()
