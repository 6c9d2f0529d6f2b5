"""One sample of one probe: what it gave, what it could not read, what it cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from types import ModuleType
from typing import TYPE_CHECKING

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.members.rooms import Broken, guarded

if TYPE_CHECKING:
    from zombiescope.recorder.loop import Sink

COSTS = "look_cpu_seconds"
Eye = Callable[[], Iterable[Reading | Blind]]  # takes one sample


@dataclass(frozen=True, slots=True)
class Sample:
    """What one sample of one probe gave."""

    at: float
    readings: tuple[Reading, ...]
    blind: Sequence[Blind]
    cost: float  # seconds of CPU


def taken(host: Host, name: str, probe: ModuleType, eye: Eye) -> Sample:
    started = time.thread_time()
    readings, blind = seen(name, probe, eye)
    # The time after the read, so that what was read holds at the time of the sample.
    return Sample(host.now(), readings, blind, time.thread_time() - started)


def seen(name: str, probe: ModuleType, eye: Eye) -> tuple[tuple[Reading, ...], Sequence[Blind]]:
    def take() -> tuple[tuple[Reading, ...], Sequence[Blind]]:
        items = list(eye())
        readings = tuple(item for item in items if not isinstance(item, Blind))
        for reading in readings:
            reading.at + reading.value  # not numbers: it fails here, before half of it is written down
        return readings, [item for item in items if isinstance(item, Blind)]

    try:
        found = guarded(take)
        if isinstance(found, Broken):
            raise Unreadable(f"probe {name}", f"broken: {found.why}")
    except (Unreadable, Unparsable) as error:
        return (), all_blind(probe, error)
    return found


def all_blind(probe: ModuleType, error: Unreadable | Unparsable) -> list[Blind]:
    return [Blind(what=what, source=error.source, why=error.why) for what in probe.GIVES]


def note(name: str, probe: ModuleType, sink: Sink, sample: Sample) -> float:
    started = time.thread_time()
    sink.look(name, probe.GIVES, sample.at, _added(name, probe, sink, sample.readings) or sample.blind)
    return noted_cost(name, sink, sample.at, sample.cost + time.thread_time() - started)


def _added(name: str, probe: ModuleType, sink: Sink, readings: Sequence[Reading]) -> list[Blind]:
    """Blind for all of it if the sink cannot take it: no text where a text should be."""

    def add() -> None:
        for reading in readings:
            sink.add(reading)

    done = guarded(add)
    broken = Unreadable(f"probe {name}", f"broken: {done.why}") if isinstance(done, Broken) else None
    return all_blind(probe, broken) if broken else []


def noted_cost(name: str, sink: Sink, at: float, cost: float) -> float:
    sink.add(Reading(what=COSTS, subject=f"probe:{name}", value=cost, at=at, source="clock_gettime(2)"))
    return cost


class Quick:
    """A probe that samples many times a second: it only fetches then, and parses all it fetched later, at once.

    A sample that wakes up, parses and goes to sleep again finds its code gone from the core's caches each time: ten
    samples parsed together cost a third of ten parsed one by one.
    """

    MOST = 20  # samples kept unparsed: two seconds at ten a second

    def __init__(self, host: Host, name: str, probe: ModuleType, sink: Sink) -> None:
        self._host, self._name, self._probe, self._sink = host, name, probe, sink
        self._fetched: list[tuple[float, bytes]] = []
        self._spent = self._telling = 0.0
        self._fetch: Callable[[], bytes] = lambda: b""

    def open(self, stack: ExitStack) -> None:
        try:
            self._fetch = stack.enter_context(self._probe.fetching(self._host))
        except Unreadable as error:
            self._fetch = raiser(error)  # type: ignore[assignment]

    def fetch(self) -> float:
        """Returns what one sample costs, parsing included."""
        started = time.thread_time()
        at = self._host.now()
        try:
            self._fetched.append((at, self._fetch()))
        except Unreadable as error:
            self.tell()
            self._sink.look(self._name, self._probe.GIVES, at, all_blind(self._probe, error))
        cost = time.thread_time() - started
        self._spent += cost
        if len(self._fetched) >= self.MOST:
            self.tell()
        return cost + self._telling

    def tell(self) -> None:
        if not self._fetched:
            return
        started = time.thread_time()
        fetched, self._fetched = self._fetched, []
        readings, blind = seen(self._name, self._probe, partial(self._probe.told, fetched))
        blind = _added(self._name, self._probe, self._sink, readings) or blind
        for at, _ in fetched:
            self._sink.look(self._name, self._probe.GIVES, at, blind)
        cost = time.thread_time() - started
        self._telling = cost / len(fetched)
        noted_cost(self._name, self._sink, fetched[-1][0], self._spent + cost)
        self._spent = 0.0


def raiser(error: Exception) -> Eye:
    def look() -> Iterable[Reading | Blind]:
        raise error

    return look
