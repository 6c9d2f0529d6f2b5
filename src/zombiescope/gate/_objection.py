"""What a rule says about an image: an objection, and the ruling over all of them."""

from __future__ import annotations

from dataclasses import dataclass

from zombiescope.core import Blind
from zombiescope.core.commands import command, is_unit, not_a_unit, operand, shown_by

# An error fails the gate. A note does not, unless --strict is given.
LEVELS = ("error", "note")
STATES = ("fail", "pass", "blind", "skipped")
# What is checked: an image that is not running, a machine read once, a machine watched for minutes.
OCCASIONS = ("image", "look", "soak")


def systemctl(verb: str, unit: str, *options: str) -> str:
    """For a person to paste; a unit's file may have any name, and then it says why there is no command."""
    return command("systemctl", verb, *options, *operand(unit)) if is_unit(unit) else not_a_unit(unit)


def seen_by(verb: str, unit: str) -> str:
    """What shows a unit, where no file does."""
    return shown_by("systemctl", verb, *operand(unit))


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
