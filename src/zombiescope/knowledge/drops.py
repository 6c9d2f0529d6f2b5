"""How packets, connections and sends are lost before a program gets them, from drops.toml."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, partial

from zombiescope.knowledge.shapes import shaped
from zombiescope.knowledge.tables import entries


@dataclass(frozen=True, slots=True, kw_only=True)
class Drop:
    """One way to lose them: the counter, what it is a share of, what it means and what helps."""

    counter: str
    of: str = ""
    bursts: bool = False
    words: str
    advice: str


SHAPES = {"drop": partial(shaped, Drop)}


@cache
def drops() -> tuple[Drop, ...]:
    return entries("drop", SHAPES["drop"])
