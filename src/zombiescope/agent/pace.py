"""So many at once, then so many a second: what is beyond is refused."""

from __future__ import annotations

import time


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
