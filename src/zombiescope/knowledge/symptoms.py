"""What people see first, and the signs that explain it, from symptoms.toml."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache, partial

from zombiescope.knowledge.shapes import shaped
from zombiescope.knowledge.tables import entries

LIKE = 4  # letters of a word that decide: "hangs" and "hang", "connections" and "connect" are the same
_SMALL = frozenset(
    {"the", "and", "for", "with", "that", "not", "are", "was", "from", "does", "but", "its", "has", "have"}
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Symptom:
    """In the words of somebody on call; the likeliest sign first."""

    seen: str
    signs: tuple[str, ...]

    def __post_init__(self) -> None:
        if not self.seen or not self.signs:
            raise ValueError("seen and signs are not empty")


SHAPES = {"symptom": partial(shaped, Symptom)}


@cache
def symptoms() -> tuple[Symptom, ...]:
    return entries("symptom", SHAPES["symptom"])


def alike(words: str) -> list[Symptom]:
    """The symptoms that share most words with these, the best first; none where no word is shared."""
    wanted = _stems(words)
    scored = [(len(wanted & _stems(it.seen)), it) for it in symptoms()]
    best = max((score for score, _ in scored), default=0)
    return [it for score, it in sorted(scored, key=lambda one: -one[0]) if score and score >= best / 2]


def _stems(words: str) -> set[str]:
    found = re.findall(r"[a-z0-9]{2,}", words.lower())
    return {it[:LIKE] for it in found if it not in _SMALL}
