"""What is worth a look before the next one is due: readings that their probe calls alarms, handed on as they come.

Of events each counts whose value is not 0, of counters each that rose. Standard library only: the capture process
imports this.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from zombiescope.core import Reading
from zombiescope.recorder.loop import Sink
from zombiescope.recorder.sampling import Fetched, Sample

APART = 5.0  # seconds between two that are said: one look shows all that happened
MOST = 2_000  # counters that are remembered: units and containers of a node


class Alarms:
    """A sink that hands on what it gets. `told` names the series, `events` those of them that happen."""

    def __init__(self, sink: Sink, say: Callable[[Reading], None]) -> None:
        self._sink, self._say = sink, say
        self.told: frozenset[str] = frozenset()
        self.events: frozenset[str] = frozenset()
        self._last: dict[tuple[str, str], float] = {}
        self._not_before = 0.0

    def fetched(self, name: str, fetched: Fetched) -> None:
        self._sink.fetched(name, fetched)

    def sample(self, name: str, sample: Sample) -> None:
        self._sink.sample(name, sample)
        found = self._alarms(sample.readings)
        now = time.monotonic()
        if found and now >= self._not_before:
            self._not_before = now + APART
            self._say(found[-1])

    def _alarms(self, readings: Iterable[Reading]) -> list[Reading]:
        """All of them are seen, so that each counter is remembered."""
        return [it for it in readings if it.what in self.told and self._is_alarm(it)]

    def _is_alarm(self, reading: Reading) -> bool:
        if reading.what in self.events:
            return bool(reading.value)
        key = (reading.what, reading.subject)
        before = self._last.pop(key, reading.value)  # what was there before we began is no news
        self._last[key] = reading.value
        while len(self._last) > MOST:
            del self._last[next(iter(self._last))]
        return reading.value > before
