"""Things that happened close to one another are one episode."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeVar

Item = TypeVar("Item")


def episodes(items: Iterable[Item], when: Callable[[Item], float], *, apart: float) -> list[list[Item]]:
    """The items, in the order given, cut where more than `apart` seconds lie between two neighbours."""
    found: list[list[Item]] = []
    for item in items:
        if found and when(item) - when(found[-1][-1]) <= apart:
            found[-1].append(item)
        else:
            found.append([item])
    return found
