"""When programs are attached: all the time, or beyond a budget of events in a part of it."""

from __future__ import annotations

import time
from collections.abc import Callable

SHORTEST = 8.0  # seconds of rest: to attach and detach interrupts every core, so it is not done for less


class Turns:
    """Attached from begin() on; beyond `most` events a second they rest now and then, so that the average is that.

    An attached program costs even where it does nothing: most of it is the kernel's way from the tracepoint to it.
    """

    def __init__(self, attach: Callable[[], None], detach: Callable[[], None], *, most: float) -> None:
        self._attach, self._detach, self._most = attach, detach, most
        self.began = self.rest_until = 0.0  # `rest_until`: 0 while attached
        self._owed = 0.0  # seconds of rest

    def begin(self) -> None:
        self._attach()
        self.rest_until = 0.0
        self.began = time.monotonic()

    def resting(self) -> bool:
        """Whether nothing was seen since the last round; where the rest is over, it begins anew."""
        if not self.rest_until:
            return False
        if time.monotonic() >= self.rest_until:
            self.begin()
        return True

    def end_round(self, events: int) -> None:
        now = time.monotonic()
        seconds, self.began = max(now - self.began, 1e-3), now
        self._owed = max(self._owed + events / self._most - seconds, 0.0)
        if self._owed >= SHORTEST:
            self._detach()
            self.rest_until, self._owed = now + self._owed, 0.0
