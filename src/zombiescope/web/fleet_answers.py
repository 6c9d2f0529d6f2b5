"""What the fleet's page may ask, and who works it out: one question at a time on each of two openings of the store.

A request names a part of the page, a sign that was found in this fleet, or a node by its number: no path, no SQL.
Answers are kept, as the same store gives the same ones; it is opened anew when the page is, after some minutes.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from zombiescope.core import UserError, harmless
from zombiescope.fleet.compare import compare
from zombiescope.fleet.reading import Fleet
from zombiescope.web._finite import finite
from zombiescope.web.fleet_difference import difference
from zombiescope.web.fleet_node import node
from zombiescope.web.fleet_overview import overview
from zombiescope.web.fleet_trends import growth
from zombiescope.web.server import Part

BYTES, JSON = "application/octet-stream", "application/json"
STALE = 300.0  # seconds after which the page, when it is loaded, reads the store anew: nodes send once an hour
WAITING = 8  # questions that may wait for another one; more is not one person's page
KEPT = 24  # answers of one kind: a flame graph has some megabytes


class Answers:
    """`opened` opens the store: once for the quick questions, once for those that take seconds."""

    def __init__(self, opened: Callable[[], Fleet], label: str, price: float | None = None, agents: str = "") -> None:
        self._open, self._label, self._price, self._agents = opened, label, price, agents
        self._quick, self._slow = threading.Lock(), threading.Lock()
        self._waiting = threading.Semaphore(WAITING)
        self._deep: Fleet | None = None
        self._kept: dict[str, dict[str, Part]] = {name: {} for name in ("node", "compare", "flame", "growth")}
        self._begin(opened())

    def _begin(self, fleet: Fleet) -> None:
        """All or nothing: what cannot be read leaves the page as it was."""
        first = BYTES, overview(fleet, self._label, self._price)
        self._fleet, self._first, self._since = fleet, first, time.monotonic()

    @property
    def says(self) -> str:
        """What was opened, in one line."""
        first, last = self._fleet.hours[0], self._fleet.hours[-1]
        return f"{harmless(self._fleet.store.url)}: {len(self._fleet.hours)} hours, {first.part} to {last.part}"

    def __call__(self, name: str, query: Mapping[str, str]) -> Part | None:
        if name == "overview":
            with self._quick:
                if time.monotonic() - self._since > STALE:
                    self._again()
                return self._first
        kept = self._kept.get(name)
        if kept is None:
            return None
        asked = query.get("id" if name == "node" else "sick", "")[:100]
        if found := kept.get(asked):
            return found
        if not self._waiting.acquire(blocking=False):
            raise UserError("too many questions at once: try again")
        try:
            with self._quick if name == "node" else self._slow:
                if asked not in kept:
                    made = self._made(name, asked)
                    while len(kept) >= KEPT:
                        del kept[next(iter(kept))]
                    kept[asked] = made
                return kept[asked]
        finally:
            self._waiting.release()

    def _again(self) -> None:
        with self._slow:  # no answer of the old opening may be kept for the new one
            self._begin(self._open())
            self._deep = None
            for kept in self._kept.values():
                kept.clear()

    def _made(self, name: str, asked: str) -> Part:
        if name == "node":
            return _text(node(self._fleet, asked, self._agents))
        deep = self._deep = self._deep or self._open()
        if name == "growth":
            return _text(growth(deep))
        sick = self._sign(deep, asked)
        return _text(compare(deep, sick)) if name == "compare" else (BYTES, difference(deep, sick))

    @staticmethod
    def _sign(fleet: Fleet, asked: str) -> str | None:
        """None for whatever harms somebody. Anything but a known sign could be SQL."""
        if not asked:
            return None
        if not asked.isidentifier() or not fleet.rows(
            "SELECT 1 FROM findings WHERE sign = $1 UNION ALL SELECT 1 FROM events WHERE kind = $1 LIMIT 1", [asked]
        ):
            raise UserError(f"{harmless(asked, most=60)}: no such sign in this fleet")
        return asked


def _text(shape: Any) -> Part:
    return JSON, json.dumps(finite(shape), allow_nan=False, separators=(",", ":")).encode()
