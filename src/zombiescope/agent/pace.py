"""So many at once, then so many a second: what is beyond is refused. One pace for all, or one for each of many."""

from __future__ import annotations

import time
from collections import OrderedDict


class Pace:
    def __init__(self, at_once: float, each_second: float) -> None:
        self._most, self._each = at_once, each_second
        self._left, self._counted = at_once, time.monotonic()

    def allows(self) -> bool:
        """One more, which counts if it is allowed."""
        now = time.monotonic()
        self._left = min(self._left + (now - self._counted) * self._each, self._most)
        self._counted = now
        if self._left < 1:
            return False
        self._left -= 1
        return True


class Paces:
    """A pace for each name, of so many names at most: the one that asked longest ago is forgotten first."""

    def __init__(self, at_once: float, each_second: float, names: int) -> None:
        self._made = (at_once, each_second)
        self._names = names
        self._paces: OrderedDict[str, Pace] = OrderedDict()

    def allows(self, name: str) -> bool:
        pace = self._paces.pop(name, None) or Pace(*self._made)
        self._paces[name] = pace
        if len(self._paces) > self._names:
            self._paces.popitem(last=False)
        return pace.allows()

    def __len__(self) -> int:
        return len(self._paces)
