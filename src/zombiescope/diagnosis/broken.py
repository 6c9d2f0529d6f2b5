"""What is there and cannot be used: members from outside, members of ours that fail, knowledge that is wrong."""

from __future__ import annotations

from collections.abc import Collection

from zombiescope.core import Verdict
from zombiescope.core.words import harmless
from zombiescope.knowledge import tables
from zombiescope.members import rooms

OTHERS = (
    "probes",
    "questions",
    "remedies",
    "outputs",
    "gate",
    "lab",
    "cli",
)  # signs and laws have verdicts of their own


def broken(of: Collection[str]) -> dict[str, str]:
    """By "room/name" and "knowledge/FILE": what is wrong with it."""
    found = {f"{room}/{name}": why for room in of for name, why in rooms.broken(room).items()}
    known: dict[str, str] = {}
    for where, why in tables.broken().items():
        label = f"knowledge/{harmless(where.rpartition('/')[2])}"
        known[label] = "; ".join([*([known[label]] if label in known else []), f"{where}: {why}"])
    return found | rooms.turned_away() | known


def verdicts() -> list[Verdict]:
    """All of it but signs and laws, so that the report says so; nothing else fails for it."""
    return [Verdict(sign=where, state="broken", says=why) for where, why in broken(OTHERS).items()]
