"""When the node's hours go to the fleet's store: asked of the examiner, a while after each hour, again after a failure.

Standard library only. The work is in fleet/shipping.py; parcels wait in DIR/agent/ship.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable, Mapping
from typing import Any

from zombiescope.agent.output import Output
from zombiescope.agent.settings import Settings

SETTINGS = ("ship", "ship_labels", "ship_clips", "ship_token_file", "post_ca_file", "post_cert_file", "post_key_file")
HOUR = 3600.0
AFTER = 330.0  # seconds after an hour: then the recorder has written all of it
SPREAD = 900.0  # seconds over which the nodes of a fleet are spread
FIRST = 15.0  # seconds after the start: what waits from before
FIRST_PAUSE, LONGEST_PAUSE = 60.0, HOUR  # between tries, doubled each time
ANSWERS = 700.0  # seconds: an examiner that is silent for longer has lost the question


class Shipping:
    """`send` hands a line to the examiner, and says whether it could."""

    def __init__(self, send: Callable[[bytes], bool], out: Output) -> None:
        self._send, self._out = send, out
        self._settings: Settings | None = None
        self._due, self._asked_at = float("inf"), 0.0
        self.asked = False  # and not answered; the resident clears it when the examiner ends, and it is asked anew
        self._pause, self._trouble = FIRST_PAUSE, ""
        self.counts: dict[str, int] = {}  # hours: sent, given_up
        self.waiting: int | None = None

    def use(self, settings: Settings, node: str) -> None:
        """Also when they change."""
        before, self._settings = self._settings, settings
        if before and all(getattr(before, it) == getattr(settings, it) for it in SETTINGS):
            return
        self._spread = int(hashlib.blake2b(node.encode(), digest_size=4).hexdigest(), 16) / 2**32 * SPREAD
        self._pause, self._trouble = FIRST_PAUSE, ""
        self._due = time.monotonic() + FIRST if settings.ship else float("inf")

    def tick(self, now: float) -> float:
        if self.asked and now - self._asked_at > ANSWERS:
            self.asked = False
        if now >= self._due and not self.asked and self._settings:
            it = self._settings
            others = {name: getattr(it, name) for name in SETTINGS[2:]}
            question = {"do": "ship", "store": it.ship, "labels": it.ship_labels, **others}
            if self._send(json.dumps(question).encode() + b"\n"):
                self.asked, self._asked_at = True, now
            else:
                self._due = now + FIRST_PAUSE
        return 60.0 if self.asked else min(max(self._due - now, 0.0), 60.0)

    def heard(self, said: Mapping[str, Any]) -> None:
        """What became of it."""
        self.asked = False
        trouble = str(said.get("error") or said.get("why") or "")
        self.waiting = int(said.get("waiting", self.waiting or 0))
        for name, key in (("sent", "sent"), ("given_up", "lost")):
            self.counts[name] = self.counts.get(name, 0) + int(said.get(key, 0))
        if said.get("lost"):
            self._out.log(f"{said['lost']} hours for the fleet were given up: {trouble or 'no room left'}", "error")
        if bool(trouble) != bool(self._trouble):
            says = (
                f"the fleet's store does not take this node's hours: {trouble}" if trouble else "hours are sent again"
            )
            self._out.log(says, "warning")
        self._trouble = trouble
        now = time.monotonic()
        if trouble:
            self._due, self._pause = now + self._pause, min(self._pause * 2, LONGEST_PAUSE)
        else:
            self._pause = FIRST_PAUSE
            self._due = now + (FIRST_PAUSE if said.get("more") else self._until_next(time.time()))

    def _until_next(self, now: float) -> float:
        """Seconds to this node's own moment of the hour."""
        return HOUR - (now - AFTER - self._spread) % HOUR
