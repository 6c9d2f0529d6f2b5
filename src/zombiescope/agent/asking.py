"""What clients ask the examiner: one question at a time, a few that wait, so many in a minute, equal ones together."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import Any

from zombiescope.agent.pace import Pace
from zombiescope.agent.serving import Later, Response

WAITING = 8  # questions that wait
AT_ONCE, EACH_SECOND = 12.0, 0.5  # questions: so many at first, then so many a second, all clients together
KEPT = 4.0  # seconds for which an answer is given again to those who ask the same
ANSWERS = 75.0  # seconds: an examiner that is silent for longer hangs


class Asking:
    """`send` hands a question to the examiner, and says whether it could."""

    def __init__(self, send: Callable[[bytes], bool]) -> None:
        self._send = send
        self._waiting: deque[tuple[str, Later, str]] = deque()  # question, who waits for it, kind of its answer
        self._open: dict[str, Later] = {}
        self._number = 0
        self._asked: tuple[str, Later, str] | None = None
        self._asked_at = 0.0
        self._pace = Pace(AT_ONCE, EACH_SECOND)
        self._kept: tuple[str, float, Response] | None = None
        self.cpu_seconds = 0.0

    def ask(self, question: Mapping[str, Any], kind: str) -> Response | Later:
        """`kind`: content type of the answer, which is gzipped unless it is a file of that form itself."""
        text = json.dumps(question, sort_keys=True)
        now = time.monotonic()
        if self._kept is not None and self._kept[0] == text and now - self._kept[1] < KEPT:
            return self._kept[2]
        if text in self._open:
            return self._open[text]
        if len(self._waiting) >= WAITING or not self._pace.allows():
            return Response(429, b"too many questions: ask again in a few seconds\n", headers=(("Retry-After", "5"),))
        later = self._open[text] = Later()
        self._waiting.append((text, later, kind))
        self._next(now)
        return later

    def heard(self, head: Mapping[str, Any], body: bytes) -> None:
        """What the examiner answered."""
        self.cpu_seconds += head.get("cpu_seconds", 0.0)
        if self._asked is None or head.get("id") != self._number:
            return  # of a question that was given up
        text, _, kind = self._asked
        if "error" in head:
            says = f"{head['error']}\n".encode("utf-8", "backslashreplace")
            self._answered(Response(413 if head.get("asked") else 503, says))
            return
        packed = (("Content-Encoding", "gzip"),) if kind.startswith("application/vnd.zombiescope") else ()
        facts = tuple((f"X-Recorded-{name.title()}", f"{head[name]:.3f}") for name in ("first", "last") if name in head)
        response = Response(200, body, kind, (*packed, *facts))
        self._kept = (text, time.monotonic(), response)
        self._answered(response)

    def tick(self, now: float) -> float:
        if self._kept is not None and now - self._kept[1] >= KEPT:
            self._kept = None
        if self._asked is not None and now - self._asked_at > ANSWERS:
            self.gone("the examiner does not answer")
        self._next(now)
        return 1.0 if self._waiting or self._asked or self._kept else 60.0

    def gone(self, why: str) -> None:
        """The examiner has ended: the question at hand is lost, those that wait are asked anew."""
        if self._asked is not None:
            self._answered(Response(503, f"{why}\n".encode()))

    def _answered(self, response: Response) -> None:
        assert self._asked is not None
        text, later, _ = self._asked
        self._asked = None
        self._open.pop(text, None)
        later.known(response)
        self._next(time.monotonic())

    def _next(self, now: float) -> None:
        if self._asked is not None or not self._waiting:
            return
        self._number += 1
        question = json.loads(self._waiting[0][0]) | {"id": self._number}
        if self._send(json.dumps(question).encode() + b"\n"):
            self._asked, self._asked_at = self._waiting.popleft(), now
