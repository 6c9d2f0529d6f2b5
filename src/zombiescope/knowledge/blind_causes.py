"""What a user can do where something could not be seen, from blind_causes.toml."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

from zombiescope.knowledge.shapes import shaped
from zombiescope.knowledge.tables import entries


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """Words of a reason, and what would let us see."""

    holds: str
    do: str

    def __post_init__(self) -> None:
        if not self.holds or not self.do:
            raise ValueError("holds and do are not empty")


def what_to_do(why: str) -> str:
    """What would let us see, if the reason is one we know."""
    return next((it.do for it in _causes() if it.holds in why), "")


@cache
def _causes() -> tuple[Cause, ...]:
    return entries("blind_cause", SHAPES["blind_cause"])


SHAPES = {"blind_cause": partial(shaped, Cause)}
