"""Which findings go on: from one look to the next, a finding begins, changes its severity, or ends.

A fault that comes and goes is one finding: it ends only after `hold` seconds in which its sign looked and did not see
it. What could not be looked at has not ended. A milder severity counts only once it has lasted as long.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from zombiescope.agent.severity import GRADES, graver

# Seconds. A unit that restarts every 240 s still loops (crash_looping_unit.APART), and Alertmanager forgets an alert
# that nobody repeats after 300 s (resolve_timeout).
HOLD = 300.0
AGAIN = 1.0  # seconds: an end that moves by less was only measured anew
BEGAN, CHANGED, ENDED = "began", "changed", "ended"
MOST_OVER = 1_000  # ended findings that are remembered, so that they do not begin again while they are in the window
_NUMBER = re.compile(r"\[\d+\]|(?<=^cpu:)\d+$")


def identity(sign: str, subject: str) -> str:
    """Processes without their number and cores without theirs: one that moves or starts anew is the same finding."""
    return f"{sign} {_NUMBER.sub('', subject)}"


def id_of(whose: str, began: float) -> str:
    return hashlib.sha256(f"{whose} {began:.3f}".encode("utf-8", "surrogateescape")).hexdigest()[:16]


@dataclass(slots=True)
class Open:
    """A finding that goes on."""

    id: str
    began: float
    last: float  # when it was last there
    severity: str
    told: dict[str, Any]  # the last event about it
    quiet: float = 0.0  # seconds for which its sign looked since then
    milder: float = 0.0  # seconds for which it has been milder than `severity`
    worst_since: str = ""  # the gravest within that time


@dataclass(slots=True)
class Followed:
    """What goes on, and what is over but may still be in the window."""

    open: dict[str, Open] = field(default_factory=dict)
    over: dict[str, float] = field(default_factory=dict)  # identity: when it ended
    looked: float = 0.0  # end of the last look
    hold: float = HOLD

    def restore(self, events: Iterable[Mapping[str, Any]]) -> None:
        """As it was when the last of these events was written. Time without a look is not quiet."""
        for event in events:
            whose = identity(event["sign"], event["subject"])
            if event["event"] == ENDED:
                self.open.pop(whose, None)
                self._is_over(whose, float(event["ended"]))
            else:
                self.open[whose] = Open(
                    id=event["id"],
                    began=float(event["began"]),
                    last=float(event["last"]),
                    severity=event["severity"],
                    told=dict(event),
                )

    def update(self, look: Mapping[str, Any], now: float) -> list[dict[str, Any]]:
        """The events of one look, in the order: ended, changed, began."""
        start, end = look["span"]
        # A clock that was set forward has not made hours quiet: it takes two looks at least.
        passed = min(max(end - max(self.looked, start), 0.0), self.hold / 2)
        self.looked = end
        self.over = {whose: at for whose, at in self.over.items() if at <= end + HOLD}  # else it was set back
        seen = self._merged(look["findings"])
        events: list[dict[str, Any]] = []
        for whose, it in list(self.open.items()):
            found = seen.pop(whose, None)
            if found is not None:
                events += self._again(it, found, passed, now)
                continue
            if look["states"].get(it.told["sign"]) in ("found", "clear"):
                it.quiet += passed
            if it.quiet >= self.hold:
                events.append(self._ended(whose, it, now))
        events += [self._began(whose, found, now) for whose, found in seen.items()]
        return sorted(events, key=lambda event: (ENDED, CHANGED, BEGAN).index(event["event"]))

    def _merged(self, findings: Iterable[Mapping[str, Any]]) -> dict[str, dict[str, Any]]:
        """One for each identity, without those that were over before: worst severity, longest span, last words."""
        seen: dict[str, dict[str, Any]] = {}
        for found in findings:
            whose = identity(found["sign"], found["subject"])
            if found["span"][1] <= self.over.get(whose, float("-inf")) + AGAIN:
                continue
            before = seen.get(whose)
            if before is None:
                seen[whose] = dict(found)
                continue
            later = max(before, found, key=lambda it: it["span"][1])
            spans = (before["span"], found["span"])
            seen[whose] = dict(later) | {
                "severity": graver(before["severity"], found["severity"]),
                "span": [min(it[0] for it in spans), max(it[1] for it in spans)],
            }
        return seen

    def _again(self, it: Open, found: Mapping[str, Any], passed: float, now: float) -> Iterator[dict[str, Any]]:
        end = found["span"][1]
        set_back = it.last > self.looked + HOLD  # the clock was
        fresh = end > it.last + AGAIN or set_back
        it.last = end if set_back else max(it.last, end)
        # In the window, but over: the time since then was quiet. Its end is known, and what passed until this look.
        it.quiet = min(max(self.looked - it.last, 0.0), self.hold / 2) if fresh else it.quiet + passed
        if it.quiet >= self.hold:
            whose = identity(found["sign"], found["subject"])
            yield self._ended(whose, it, now)
            return
        new = found["severity"]
        if GRADES.index(new) >= GRADES.index(it.severity):
            it.milder, it.worst_since = 0.0, ""
        else:
            it.worst_since = graver(it.worst_since or new, new)
            it.milder += passed
            new = it.worst_since if it.milder >= self.hold else it.severity
        it.told |= {name: found[name] for name in ("says", "harm", "chain", "evidence")}
        if new != it.severity:
            before, it.severity, it.milder, it.worst_since = it.severity, new, 0.0, ""
            it.told = self._event(CHANGED, it, it.told, now) | {"before": before}
            yield it.told

    def _began(self, whose: str, found: Mapping[str, Any], now: float) -> dict[str, Any]:
        began, last = found["span"]
        began = max(began, self.over.get(whose, began))
        it = Open(id=id_of(whose, began), began=began, last=last, severity=found["severity"], told={})
        it.quiet = max(self.looked - last, 0.0)
        it.told = self._event(BEGAN, it, found, now)
        self.open[whose] = it
        return it.told

    def _ended(self, whose: str, it: Open, now: float) -> dict[str, Any]:
        del self.open[whose]
        self._is_over(whose, it.last)
        return self._event(ENDED, it, it.told, now) | {"ended": it.last}

    def _is_over(self, whose: str, ended: float) -> None:
        self.over.pop(whose, None)
        self.over[whose] = ended
        while len(self.over) > MOST_OVER:
            del self.over[next(iter(self.over))]

    @staticmethod
    def _event(kind: str, it: Open, found: Mapping[str, Any], now: float) -> dict[str, Any]:
        return {
            "event": kind,
            "id": it.id,
            "at": round(now, 3),
            "sign": found["sign"],
            "subject": found["subject"],
            "severity": it.severity,
            "says": found["says"],
            "began": it.began,
            "last": it.last,
            "harm": found["harm"],
            "chain": found["chain"],
            "evidence": found["evidence"],
        }
