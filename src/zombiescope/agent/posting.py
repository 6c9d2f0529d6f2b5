"""Events to others: a webhook that gets each event, and Alertmanager, which gets all that goes on again and again.

Both post from threads of their own, so a server that does not answer holds up nothing. What waits is bounded, in number
and in bytes.
"""

from __future__ import annotations

import json
import random
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Any
from urllib.parse import urlsplit

from zombiescope.agent.tls import Certificates

WAITING = 256  # events that wait for the webhook; the oldest is given up first, and counted
MOST_BYTES = 16 << 20  # bytes that wait: 256 events of their greatest length
JSON = {"Content-Type": "application/json"}
TIMEOUT = 10.0  # seconds for one post
FIRST_PAUSE, LONGEST_PAUSE = 1.0, 300.0  # seconds between tries, doubled each time
ALERTS = "/api/v2/alerts"
REPEATED = 60.0  # seconds between repeats to Alertmanager, as Prometheus does
EXPIRES = 240.0  # seconds after which an alert that nobody repeats is resolved: four repeats, as Prometheus does


class Poster:
    """One target, one thread."""

    def __init__(
        self,
        url: str,
        token: str = "",
        taken: Callable[[int], None] = lambda _: None,
        headers: Mapping[str, str] = JSON,
        most: int = MOST_BYTES,
        oldest: float = float("inf"),
        certificates: Certificates | None = None,
    ) -> None:
        """`taken` hears the number of each event that the target took, or will never take. What has waited for longer
        than `oldest` seconds is given up. `certificates`: for an https address."""
        self.lost = 0
        self._trouble, self._said = "", ""  # why it does not take what is posted; what `news` told of that
        self._certificates = certificates
        self._url, self._token, self._taken, self._headers = urlsplit(url), token, taken, dict(headers)
        self._most, self._oldest = most, oldest
        self._waiting: deque[tuple[int, bytes, float]] = deque()  # number, body, when it came
        self._changed = threading.Condition()
        self._ends = False
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def put(self, body: bytes, number: int = 0, *, instead: bool = False) -> None:
        """`instead`: what still waits is outdated by this one, and not lost."""
        with self._changed:
            now = time.monotonic()
            if instead:
                self._waiting.clear()
            while self._waiting and (len(self._waiting) >= WAITING or self._too_much(len(body), now)):
                self._waiting.popleft()
                self.lost += 1
            self._waiting.append((number, body, now))
            self._changed.notify()

    def _too_much(self, more: int, now: float) -> bool:
        size = sum(len(body) for _, body, _ in self._waiting)
        return size + more > self._most or now - self._waiting[0][2] > self._oldest

    def news(self) -> str:
        """What to log: that it began to fail, and why, or that it takes again what is posted. Empty: nothing new."""
        trouble = self._trouble
        if bool(trouble) == bool(self._said):
            return ""
        self._said = trouble
        return f"does not take what is posted: {trouble}" if trouble else "takes again what is posted"

    def close(self, patience: float) -> None:
        """Give what waits one more try, for so long at most."""
        with self._changed:
            self._ends = True
            self._changed.notify()
        self._thread.join(patience)
        self.lost += len(self._waiting)

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while True:
            with self._changed:
                while not self._waiting and not self._ends:
                    self._changed.wait()
                if not self._waiting:
                    return
                first = self._waiting[0]
            again = self._posted(first[1])
            if not again:
                self._taken(first[0])
            with self._changed:
                if not again:
                    pause = FIRST_PAUSE
                    if self._waiting and self._waiting[0] is first:
                        self._waiting.popleft()
                elif self._ends:
                    return
                else:
                    # Not all nodes of a fleet at the same moment.
                    self._changed.wait(pause * random.uniform(0.8, 1.2))
                    pause = min(pause * 2, LONGEST_PAUSE)

    def _posted(self, body: bytes) -> bool:
        """Whether to try it again. What it calls a mistake of ours stays one, however often it is sent."""
        status, self._trouble = self._post(body)
        if 400 <= status < 500 and status not in (408, 429):  # these ask for patience
            self.lost += 1
            return False
        return bool(self._trouble)

    def _post(self, body: bytes) -> tuple[int, str]:
        """Its status, 0 without one, and why it failed. Redirects are not followed: the address was configured."""
        from zombiescope.places.http_request import NoAnswer, asked  # 4 MB: only where something is posted

        context = self._certificates.context() if self._certificates else None
        try:
            answer = asked(
                self._url,
                "POST",
                body,
                token=self._token,
                headers=self._headers,
                context=context,
                timeout=TIMEOUT,
            )
        except NoAnswer as error:
            return 0, f"{self._url.netloc}: {error}"
        return answer.status, "" if answer.status < 300 else f"{self._url.netloc}: HTTP {answer.status}"


class Alerts:
    """What is posted to Alertmanager: every finding that goes on, again and again, and the end of those that ended."""

    def __init__(self, url: str, node: str, certificates: Certificates | None = None) -> None:
        base = url.rstrip("/")
        self.poster = Poster(base if base.endswith(ALERTS) else base + ALERTS, certificates=certificates)
        self._node = node
        self._over: list[dict[str, Any]] = []
        self.due = 0.0

    def heard(self, event: Mapping[str, Any]) -> None:
        """An alert with another severity is another alert: the one before it ends."""
        if event["event"] == "ended":
            self._over.append(self._alert(event, until=event["ended"]))
        elif event["event"] == "changed":
            self._over.append(self._alert(dict(event) | {"severity": event["before"]}, until=event["at"]))
        self.due = 0.0

    def repeat(self, going_on: Iterable[Mapping[str, Any]], now: float) -> None:
        if now < self.due:
            return
        self.due = now + REPEATED
        alerts = [self._alert(it, until=time.time() + EXPIRES) for it in going_on] + self._over
        # An end is repeated for a while: the post that told it may have been replaced by a later one.
        self._over = [it for it in self._over if it["endsAt"] > _moment(time.time() - 2 * EXPIRES)]
        if alerts:
            self.poster.put(json.dumps(alerts).encode(), instead=True)

    def _alert(self, event: Mapping[str, Any], until: float) -> dict[str, Any]:
        return {
            "labels": {
                "alertname": "ZombiescopeFinding",
                "instance": self._node,
                "sign": event["sign"],
                "subject": event["subject"],
                "severity": event["severity"],
                "finding": event["id"],
            },
            "annotations": {
                "summary": f"{event['sign']} on {self._node}: {event['subject']}",
                "description": f"{event['says']}. {event['harm'].get('says', '')}".strip(),
                "chain": " → ".join(f"{it['sign']} {it['subject']}" for it in event["chain"]),
            },
            "startsAt": _moment(event["began"]),
            "endsAt": _moment(until),
        }


def _moment(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%fZ")
