"""What a rule says of an image: an objection, or what all of it came to."""

from __future__ import annotations

from dataclasses import dataclass

from zombiescope.core import Blind

# An error closes the gate. A note is worth knowing and does not, unless it is asked to (--strict).
LEVELS = ("error", "note")
STATES = ("fail", "pass", "blind", "skipped")
# What there is to look at: an image that does not run, a machine looked at once, a machine looked at for minutes.
OCCASIONS = ("image", "look", "soak")


@dataclass(frozen=True, slots=True, kw_only=True)
class Accepted:
    """Why somebody lets an objection pass, and until when."""

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
    rule: str = ""  # stamped with the file's name as it leaves the room
    accepted: Accepted | None = None

    def __post_init__(self) -> None:
        if self.level not in LEVELS:
            raise ValueError(f"no such level: {self.level}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Ruling:
    """What one rule came to. What could not be seen never passes."""

    rule: str
    state: str  # one of STATES
    says: str = ""
    objections: tuple[Objection, ...] = ()
    unseen: tuple[Blind, ...] = ()
