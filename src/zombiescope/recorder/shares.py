"""Room that many use: nobody gets more than is left for all others, so one alone gets half, and none uses it all up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable
from typing import TypeVar

Thing = TypeVar("Thing")


class Shares:
    """Of some bytes. A hundred who want all leave a hundredth for each one who comes later."""

    def __init__(self, most: int) -> None:
        self._left = most
        self._used: Counter[Hashable] = Counter()

    def take(self, size: int, users: Iterable[Hashable]) -> bool:
        """Whether there was room; `users`: who it is for, such as a process and the cgroup that it is in."""
        users = tuple(users)
        if any(self._used[it] + size > self._left for it in users):
            return False
        for it in users:
            self._used[it] += size
        self._left -= size
        return True


def in_turn(things: Iterable[tuple[Thing, Hashable]], most: int) -> set[Thing]:
    """So many things of many owners: of each owner the last one, then of each the last but one, and so on."""
    turns: Counter[Hashable] = Counter()
    placed: list[tuple[int, Thing]] = []
    for thing, owner in reversed(list(things)):
        placed.append((turns[owner], thing))
        turns[owner] += 1
    placed.sort(key=lambda it: it[0])
    return {thing for _, thing in placed[:most]}
