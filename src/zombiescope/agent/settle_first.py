"""What is finished is settled before a look: then the look has to parse only the head that is being written.

By the examiner, which has all that it takes loaded. A disk that does not answer delays a look by `PATIENCE` at most,
and only the first one: those after it find the lane busy, and parse what is not settled themselves.
"""

from __future__ import annotations

from collections.abc import Callable

PATIENCE = 10.0  # seconds: two minutes of a busy node take one


class SettleFirst:
    """`send` hands a question to the examiner, and says whether it could."""

    def __init__(self, send: Callable[[bytes], bool]) -> None:
        self._send = send
        self._asked_at = 0.0
        self._asked = self._answered = False

    def done(self, now: float) -> bool:
        """Whether to look now; asked for the first time, it has what is finished settled."""
        if not self._asked:
            self._asked, self._asked_at = True, now
            self._answered = not self._send(b'{"do": "settle"}\n')
        return self._answered or now - self._asked_at > PATIENCE

    def heard(self) -> None:
        """The examiner answered: it is done, failed, or is still at the last one."""
        self._answered = True

    def begin(self) -> None:
        """For the next look; also when the examiner has ended."""
        self._asked = self._answered = False
