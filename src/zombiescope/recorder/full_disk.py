"""A disk that is full: since when, and when it is tried again. Standard library only: the capture imports this."""

from __future__ import annotations

from collections.abc import Callable

# Seconds: each time later. Else somebody who lets room come and go would make a segment of every second.
FIRST_PAUSE, LAST_PAUSE = 1.0, 60.0


class FullDisk:
    def __init__(self, monotonic: Callable[[], float]) -> None:
        self._monotonic = monotonic
        self._since = -1.0  # -1: it is not full
        self._next_try, self._pause = 0.0, FIRST_PAUSE
        self._good_since = monotonic()

    @property
    def waits(self) -> bool:
        return self._monotonic() < self._next_try

    def failed(self) -> None:
        """There was no room."""
        now = self._monotonic()
        if self._since < 0:
            self._since = now
            if now - self._good_since > LAST_PAUSE:
                self._pause = FIRST_PAUSE
        self._next_try, self._pause = now + self._pause, min(2 * self._pause, LAST_PAUSE)

    def written(self) -> float:
        """There was room: for how many seconds there had been none, 0 if that is no news."""
        if self._since < 0:
            return 0.0
        self._good_since = self._monotonic()
        passed, self._since = self._good_since - self._since, -1.0
        return passed
