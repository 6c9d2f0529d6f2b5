"""Whether the agent may fix something by itself: never, unless it is told to; then seldom, and one thing at a time.

A fix is begun for a root cause that two looks have seen and that has a safe plan, outside of the blackout, if fewer
than so many were begun in a day and none for the same. What is begun is on disk first: a crash does not lose count.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from zombiescope.agent.findings import identity
from zombiescope.core import UserError

SEEN = 2  # looks in a row
DAY = 86400.0
AGAIN = 3600.0  # seconds after which something is tried again that was refused, so that nothing was changed
_WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")


def windows(text: str, key: str) -> list[tuple[int, int]]:
    """08:00-18:00,22:30-01:00 as minutes of the day, in UTC."""
    found = []
    for one in filter(None, (it.strip() for it in text.split(","))):
        told = _WINDOW.fullmatch(one)
        if told is None:
            raise UserError(f"{key}: {one!r} is not a time of day such as 08:00-18:00, in UTC")
        start, end = int(told[1]) * 60 + int(told[2]), int(told[3]) * 60 + int(told[4])
        found.append((start, end))
    return found


def within(when: float, every: Iterable[tuple[int, int]]) -> bool:
    """A window whose end is not after its start goes over midnight."""
    moment = datetime.fromtimestamp(when, UTC)
    minute = moment.hour * 60 + moment.minute
    return any(start <= minute < end if start < end else minute >= start or minute < end for start, end in every)


@dataclass(slots=True)
class Choosing:
    """Which finding to fix, if any. `begun`: when a fix was begun, and for what, as the log says."""

    per_day: int = 1
    blackout: list[tuple[int, int]] = field(default_factory=list)
    begun: list[tuple[float, str]] = field(default_factory=list)
    _seen: dict[str, int] = field(default_factory=dict)
    _refused: dict[str, float] = field(default_factory=dict)  # when

    def choose(self, findings: Iterable[Mapping[str, Any]], now: float) -> Mapping[str, Any] | None:
        """Of one look; the most harmful comes first in it."""
        there: dict[str, Mapping[str, Any]] = {
            identity(it["sign"], it["subject"]): it for it in reversed(list(findings)) if it["root"]
        }
        self._seen = {whose: self._seen.get(whose, 0) + 1 for whose in there}
        lately = [whose for at, whose in self.begun if -DAY < now - at < DAY]
        if within(now, self.blackout) or len(lately) >= self.per_day:
            return None
        for whose, found in reversed(there.items()):
            waits = abs(now - self._refused.get(whose, float("-inf"))) < AGAIN
            if found.get("remedy") and self._seen[whose] >= SEEN and whose not in lately and not waits:
                return found
        return None

    def began(self, found: Mapping[str, Any], now: float) -> None:
        self.begun.append((now, identity(found["sign"], found["subject"])))

    def refused(self, found: Mapping[str, Any], now: float) -> None:
        """Nothing was changed: it does not count."""
        whose = identity(found["sign"], found["subject"])
        places = [place for place, (_, it) in enumerate(self.begun) if it == whose]
        if places:
            del self.begun[places[-1]]
        self._refused[whose] = now
