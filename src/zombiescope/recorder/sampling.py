"""One sample of one probe: what it gave, what it could not read, what it cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from types import ModuleType
from typing import NamedTuple, Protocol

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.kernel.fetched import fetching
from zombiescope.members.rooms import Broken, guarded

COSTS = "look_cpu_seconds"
CLOCK = "clock_gettime(2)"  # the source of what a sample cost
Eye = Callable[[], Iterable[Reading | Blind]]  # takes one sample


class Sample(NamedTuple):
    """What one sample of one probe gave."""

    at: float
    readings: tuple[Reading, ...]
    blind: Sequence[Blind]
    cost: float  # seconds of CPU


class Fetched(NamedTuple):
    """What one sample of a probe with FILES fetched: it is parsed later."""

    at: int  # nanoseconds of CLOCK_MONOTONIC
    content: bytes
    cost: float  # seconds of CPU


class Notes(Protocol):
    """Where parsed samples go: a tape in memory, or rows of a segment."""

    def add(self, reading: Reading) -> None: ...

    def look(self, name: str, gives: Sequence[str], at: float, unseen: Sequence[Blind] = ()) -> None: ...


def look(host: Host, name: str, probe: ModuleType, sink: Notes, eye: Eye | None = None) -> float:
    """One sample of one probe. Every failure is noted as blind; returns the CPU time it cost."""
    return note(name, probe, sink, taken(host, name, probe, eye or partial(probe.read, host)))


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
            reading.what + reading.subject + reading.source + reading.text  # nor texts
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


def note(name: str, probe: ModuleType, sink: Notes, sample: Sample) -> float:
    started = time.thread_time()
    for reading in sample.readings:
        sink.add(reading)
    sink.look(name, probe.GIVES, sample.at, sample.blind)
    return noted_cost(name, sink, sample.at, sample.cost + time.thread_time() - started)


def noted_cost(name: str, sink: Notes, at: float, cost: float) -> float:
    sink.add(Reading(what=COSTS, subject=f"probe:{name}", value=cost, at=at, source=CLOCK))
    return cost


class Files:
    """A probe with FILES: held open, and only fetched. What was fetched is parsed when it is read."""

    def __init__(self, host: Host, probe: ModuleType) -> None:
        self._host, self._probe = host, probe
        self._held = ExitStack()
        self._fetch: Callable[[], bytes] | None = None

    def sample(self) -> Fetched | Sample:
        """A Sample only where there is nothing to parse: why it could not be fetched."""
        started = time.thread_time()
        if self._fetch is None:
            self._fetch = self._held.enter_context(fetching(self._host, self._probe.FILES))
        try:
            content = self._fetch()
        except Unreadable as error:
            return Sample(self._host.now(), (), all_blind(self._probe, error), time.thread_time() - started)
        return Fetched(time.monotonic_ns(), content, time.thread_time() - started)

    def close(self) -> None:
        self._held.close()


def raiser(error: Exception) -> Eye:
    def look() -> Iterable[Reading | Blind]:
        raise error

    return look
