"""How long to wait before the next try: twice as long each time, and drawn at random, for the sake of the server."""

from __future__ import annotations

import random

FIRST, LONGEST = 1.0, 300.0  # seconds
FACTOR = 2.0


class Pausing:
    """After a thousand nodes lost one server, their tries are spread over the whole of each pause."""

    def __init__(self, first: float = FIRST, longest: float = LONGEST) -> None:
        self._first, self._longest, self._next = first, longest, first

    def worked(self) -> None:
        self._next = self._first

    def failed(self, asked: float = 0.0) -> float:
        """Seconds to wait now; at least what the server asked for, and some more, so that not all come at once then."""
        most, self._next = self._next, min(self._next * FACTOR, self._longest)
        return asked + random.uniform(most / 2, most)
