"""The sampling loop: every probe at its own interval, every sample noted with its failure and its cost.

The doctor must not infect: a probe that is expensive on this node is run less often, so that no probe takes more than
`SHARE` of one core, however much the fault makes it cost.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from contextlib import ExitStack
from functools import partial
from types import ModuleType
from typing import Any, Protocol

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.members.rooms import Broken, guarded, healthy

SHARE = 0.005  # of one core, for one probe: a dozen expensive probes together stay below a tenth of a core
COSTS = "look_cpu_seconds"
Eye = Callable[[], Iterable[Reading | Blind]]  # takes one sample
Act = Callable[[], float]  # returns the seconds until the next time


class Sink(Protocol):
    """Where readings go: a tape in memory, or a journal on disk."""

    @property
    def began(self) -> int:
        """Segments so far: to detect a new segment, compare."""

    def add(self, reading: Reading) -> None: ...

    def look(self, name: str, gives: Sequence[str], at: float, unseen: Sequence[Blind] = ()) -> None: ...

    def chunk(self, kind: str, columns: Mapping[str, Any]) -> None:
        """Samples or stacks, column by column, as they were read."""


def look(host: Host, name: str, probe: ModuleType, sink: Sink, eye: Eye | None = None) -> float:
    """One sample of one probe. Every failure is noted as blind; returns the CPU time it cost."""
    started = time.thread_time()
    blind = _seen(name, probe, sink, eye or partial(probe.read, host))
    at = host.now()  # after the read, so that what was read holds at the time of the sample
    sink.look(name, probe.GIVES, at, blind)
    return _cost(name, sink, at, time.thread_time() - started)


def _seen(name: str, probe: ModuleType, sink: Sink, eye: Eye) -> list[Blind]:
    blind: list[Blind] = []

    def take() -> None:
        for item in list(eye()):
            if isinstance(item, Blind):
                blind.append(item)
            else:
                item.at + item.value  # not numbers: it fails here, before half of it is written down
                sink.add(item)

    try:
        taken = guarded(take)
        if isinstance(taken, Broken):
            raise Unreadable(f"probe {name}", f"broken: {taken.why}")
    except (Unreadable, Unparsable) as error:
        blind = [Blind(what=what, source=error.source, why=error.why) for what in probe.GIVES]
    return blind


def _cost(name: str, sink: Sink, at: float, cost: float) -> float:
    sink.add(Reading(what=COSTS, subject=f"probe:{name}", value=cost, at=at, source="clock_gettime(2)"))
    return cost


class _Quick:
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
            self._fetch = _raiser(error)  # type: ignore[assignment]

    def fetch(self) -> float:
        """Returns what one sample costs, parsing included."""
        started = time.thread_time()
        at = self._host.now()
        try:
            self._fetched.append((at, self._fetch()))
        except Unreadable as error:
            self.tell()
            self._sink.look(
                self._name, self._probe.GIVES, at, _seen(self._name, self._probe, self._sink, _raiser(error))
            )
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
        blind = _seen(self._name, self._probe, self._sink, partial(self._probe.told, fetched))
        for at, _ in fetched:
            self._sink.look(self._name, self._probe.GIVES, at, blind)
        cost = time.thread_time() - started
        self._telling = cost / len(fetched)
        _cost(self._name, self._sink, fetched[-1][0], self._spent + cost)
        self._spent = 0.0


class Loop:
    """Probes that sample a machine in turn, and whatever else is due now and then."""

    def __init__(self, host: Host, sink: Sink, only: Container[str] | None = None) -> None:
        self._host, self._sink = host, sink
        # What a broken probe would have given is unknown: a sign that needs it finds that nothing looked for it.
        self._probes = {name: it for name, it in healthy("probes").items() if only is None or name in only}
        self._eyes: dict[str, Eye] = {}
        self._quick = {
            name: _Quick(host, name, it, sink)
            for name, it in self._probes.items()
            if host.live and hasattr(it, "fetching")
        }
        self._open = ExitStack()
        self._due: list[tuple[float, int, Act]] = []
        self._turn = itertools.count()  # ties are broken by who was first
        self.stopped = False

    def __enter__(self) -> Loop:
        self._eyes = {name: self._opened(probe) for name, probe in self._probes.items()}
        for quick in self._quick.values():
            quick.open(self._open)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()

    @property
    def gives(self) -> dict[str, tuple[str, ...]]:
        return {name: tuple(probe.GIVES) for name, probe in self._probes.items()}

    @property
    def events(self) -> tuple[str, ...]:
        """What is an event and not a value that holds: each one is kept."""
        return tuple(what for probe in self._probes.values() for what in getattr(probe, "EVENTS", ()))

    def look_at_all(self, slowest: float = float("inf")) -> None:
        for name, probe in self._probes.items():
            if slowest >= probe.EVERY:
                look(self._host, name, probe, self._sink, self._eyes[name])

    def every(self, act: Act, after: float = 0.0) -> None:
        """Do something now and then: it returns when it is next due."""
        heapq.heappush(self._due, (time.monotonic() + after, next(self._turn), act))

    def run(self, seconds: float) -> None:
        """Sample for `seconds`, or until `stopped`."""
        start = time.monotonic()
        for name, probe in self._probes.items():
            self.every(partial(self._look, name), after=probe.EVERY)
        while not self.stopped and self._due[0][0] < start + seconds:
            when, _, act = self._due[0]
            time.sleep(max(0.0, when - time.monotonic()))
            pause = act()
            # Keep the interval; after a stall (SIGSTOP, a starved core) continue from now instead of catching up.
            heapq.heapreplace(self._due, (max(when + pause, time.monotonic()), next(self._turn), act))
        if not self.stopped:
            time.sleep(max(0.0, start + seconds - time.monotonic()))
        self.tell()

    def tell(self) -> None:
        """Hand over what was fetched and not parsed yet."""
        for quick in self._quick.values():
            quick.tell()

    def _look(self, name: str) -> float:
        probe = self._probes[name]
        if name in self._quick:
            return max(float(probe.EVERY), self._quick[name].fetch() / SHARE)
        cost = look(self._host, name, probe, self._sink, self._eyes[name])
        return max(float(probe.EVERY), cost / SHARE)

    def _opened(self, probe: ModuleType) -> Eye:
        """How a probe samples: by reading again each time, or, if it keeps something open, by its `watch`."""
        if not (self._host.live and hasattr(probe, "watch")):
            return partial(probe.read, self._host)
        try:
            eye = guarded(lambda: self._open.enter_context(probe.watch(self._host)))
        except (Unreadable, Unparsable) as error:
            return _raiser(error)
        return _raiser(Unreadable("watch", f"broken: {eye.why}")) if isinstance(eye, Broken) else eye


def _raiser(error: Exception) -> Eye:
    def look() -> Iterable[Reading | Blind]:
        raise error

    return look
