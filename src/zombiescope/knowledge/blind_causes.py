"""What a user can do where something could not be seen, from blind_causes.toml."""

from __future__ import annotations

from functools import cache

from zombiescope.knowledge.tables import Entry, entries


def what_to_do(why: str) -> str:
    """What the user can do about it, if the reason is known."""
    return next((do for holds, do in _causes() if holds in why), "")


@cache
def _causes() -> tuple[tuple[str, str], ...]:
    return entries("blind_cause", _made)


def _made(entry: Entry) -> tuple[str, str]:
    return str(entry["holds"]), str(entry["do"])
