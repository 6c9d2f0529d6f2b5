"""Samples of probes and what the rings held, into a head: bytes as they were fetched, readings only where they changed.

Standard library only: the capture process imports this.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from zombiescope.core import Reading
from zombiescope.kernel.perf_ring import Event
from zombiescope.kernel.perf_rings import Drained
from zombiescope.recorder.changes import Changes
from zombiescope.recorder.clock import ahead_ns
from zombiescope.recorder.head import HeadWriter
from zombiescope.recorder.sampling import Fetched, Sample

FULL = 0.995  # of the time: a counter that counted as much was not shared
RECORDER = "recorder"  # what it says of itself, as if by a probe of this name


class HeadSink:
    """One head after the other. Each is self-contained: the next one begins with every value."""

    def __init__(self, write: Callable[[bytes], object], events: Sequence[str] = ()) -> None:
        self.events = frozenset(events)  # what happened, not a value that holds: each one is kept
        self.readings = 0  # those left out included
        self.ring_bytes = 0
        self.begin(write)

    def begin(self, write: Callable[[bytes], object]) -> None:
        """A new head."""
        self._head = HeadWriter(write)
        self._sources: dict[tuple[Any, ...], int] = {}
        self._probes: dict[str, int] = {}
        self._changes = Changes()
        self._head.clock(time.monotonic_ns(), ahead_ns())

    @property
    def bytes(self) -> int:
        """Of this head, flushed."""
        return self._head.bytes

    def fetched(self, name: str, fetched: Fetched) -> None:
        self._head.fetched(self._probe(name), fetched.at, fetched.content)

    def sample(self, name: str, sample: Sample) -> None:
        self._head.sample(
            self._probe(name),
            time.monotonic_ns(),
            time=sample.at,
            readings=[_row(it) for it in sample.readings if it.what in self.events or self._changes.is_new(it)],
            blind=[(it.what, it.source, it.why, it.subject) for it in sample.blind],
            cost=sample.cost,
        )
        self.readings += len(sample.readings)

    def drained(self, event: Event, rings: Iterable[Drained]) -> None:
        """What the rings held, as it is. The source says how to read it: rates and stacks change with the budget."""
        at = time.monotonic_ns()
        how = {"event": event.name, "hz": event.hz, "cgroup": event.cgroup, "user": event.user}
        for ring in rings:
            shared = {"share": round(ring.share, 2)} if ring.share < FULL else {}
            source = self._source({"ring": ring.cpu, **how, **shared})
            if ring.content:
                self._head.ring(source, at, ring.content)
                self.ring_bytes += len(ring.content)
            if ring.lost:
                self._head.lost(source, at, ring.lost)

    def note(self, at: float, *readings: Reading) -> None:
        """What the recorder says of itself."""
        self.sample(RECORDER, Sample(at, readings, (), 0.0))

    def flush(self) -> int:
        """All of it in one write, with the clock as it is set now; returns how many bytes."""
        self._head.clock(time.monotonic_ns(), ahead_ns())
        return self._head.flush()

    def _probe(self, name: str) -> int:
        return self._probes.get(name) or self._probes.setdefault(name, self._source({"probe": name}))

    def _source(self, what: dict[str, Any]) -> int:
        key = tuple(what.values())
        if key not in self._sources:
            self._sources[key] = self._head.source(what, time.monotonic_ns())
        return self._sources[key]


def _row(reading: Reading) -> tuple[str, str, float, float, str, str]:
    return (reading.what, reading.subject, reading.value, reading.at, reading.source, reading.text)
