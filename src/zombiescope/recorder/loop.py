"""The sampling loop: every probe at its own interval, every sample noted with its failure and its cost.

The doctor must not infect: a probe that is expensive on this node is run less often, so that no probe takes more than
`SHARE` of one core, however much the fault makes it cost. Nor be stopped by the disease: probes run in a thread of
their own with a deadline; the main thread, which also reads the samples, only fetches from files that are held open.
"""

from __future__ import annotations

import heapq
import itertools
import time
from collections.abc import Callable, Container, Mapping, Sequence
from contextlib import ExitStack, suppress
from functools import partial
from types import ModuleType
from typing import Any, Protocol

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.members.rooms import Broken, guarded, healthy
from zombiescope.recorder.sampling import Eye, Quick, Sample, all_blind, note, raiser, taken
from zombiescope.recorder.worker import DEADLINE, Worker

SHARE = 0.005  # of one core, for one probe: a dozen expensive probes together stay below a tenth of a core
LONGEST_PAUSE = 600.0  # seconds: a probe that was late is asked again after that at the latest
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
    return note(name, probe, sink, taken(host, name, probe, eye or partial(probe.read, host)))


class Loop:
    """Probes that sample a machine in turn, and whatever else is due now and then."""

    def __init__(self, host: Host, sink: Sink, only: Container[str] | None = None) -> None:
        self._host, self._sink = host, sink
        # What a broken probe would have given is unknown: a sign that needs it finds that nothing looked for it.
        self._probes = {name: it for name, it in healthy("probes").items() if only is None or name in only}
        self._eyes: dict[str, Eye] = {}
        self._quick = {
            name: Quick(host, name, it, sink)
            for name, it in self._probes.items()
            if host.live and hasattr(it, "fetching")
        }
        self._not_before = dict.fromkeys(self._probes, 0.0)  # a costly or late probe waits, by the monotonic clock
        self._pause = dict.fromkeys(self._probes, DEADLINE)  # seconds after the next time it is late
        self._worker: Worker[Sample | None] | None = None  # none for a recorded root: nothing in it blocks
        self._open, self._watched = ExitStack(), ExitStack()
        self._due: list[tuple[float, int, Act]] = []
        self._turn = itertools.count()  # ties are broken by who was first
        self._scheduled = self.stopped = False

    def __enter__(self) -> Loop:
        self._worker = Worker() if self._host.live else None
        for quick in self._quick.values():
            quick.open(self._open)
        return self

    def __exit__(self, *_: object) -> None:
        self._open.close()
        if self._worker is not None:  # it closes what it opened, by its deadline: what hangs goes with the process
            self._worker.ask("", self._close)
            while self._worker.waiting:
                self._worker.answers(wait=0.1)
                self._worker.late()
            self._worker.close()

    @property
    def gives(self) -> dict[str, tuple[str, ...]]:
        return {name: tuple(probe.GIVES) for name, probe in self._probes.items()}

    @property
    def events(self) -> tuple[str, ...]:
        """What is an event and not a value that holds: each one is kept."""
        return tuple(what for probe in self._probes.values() for what in getattr(probe, "EVENTS", ()))

    def look_at_all(self, slowest: float = float("inf")) -> None:
        """Sample every probe once, and wait for all of them; what is due in the meantime is done, with its samples."""
        self._schedule()
        for name, probe in self._probes.items():
            if slowest < probe.EVERY:
                continue
            if self._worker is None or name in self._quick:
                look(self._host, name, probe, self._sink)
            else:
                self._ask(self._worker, name)
        self._collect_all()

    def every(self, act: Act, after: float = 0.0) -> None:
        """Do something now and then: it returns when it is next due."""
        heapq.heappush(self._due, (time.monotonic() + after, next(self._turn), act))

    def run(self, seconds: float) -> None:
        """Sample for `seconds`, or until `stopped`."""
        start = time.monotonic()
        self._schedule()
        while not self.stopped and self._due[0][0] < start + seconds:
            time.sleep(max(0.0, self._due[0][0] - time.monotonic()))
            self._do_next()
        if not self.stopped:
            time.sleep(max(0.0, start + seconds - time.monotonic()))
        self._collect_all()
        self.tell()

    def tell(self) -> None:
        """Hand over what was sampled and not noted or parsed yet."""
        self._collect()
        for quick in self._quick.values():
            quick.tell()

    def _schedule(self) -> None:
        """Every probe at its own interval from now on."""
        if not self._scheduled:
            self._scheduled = True
            for name, probe in self._probes.items():
                self.every(partial(self._look, name), after=probe.EVERY)

    def _do_next(self) -> None:
        when, _, act = self._due[0]
        pause = act()
        # Keep the interval; after a stall (SIGSTOP, a starved core) continue from now instead of catching up.
        heapq.heapreplace(self._due, (max(when + pause, time.monotonic()), next(self._turn), act))

    def _look(self, name: str) -> float:
        every = float(self._probes[name].EVERY)
        if name in self._quick:
            return max(every, self._quick[name].fetch() / SHARE)
        wait = self._not_before[name] - time.monotonic()
        if wait > 0:
            return wait
        if self._worker is None:
            return max(every, look(self._host, name, self._probes[name], self._sink) / SHARE)
        self._collect()
        self._ask(self._worker, name)
        return every

    def _ask(self, worker: Worker[Sample | None], name: str) -> None:
        if worker.hangs(name):
            self._note_late(name)
        elif not worker.waits(name):
            self._not_before[name] = time.monotonic()
            worker.ask(name, partial(self._sampled, name))

    def _sampled(self, name: str) -> Sample:
        """In the worker's thread: whatever blocks, blocks there; opening, too."""
        probe = self._probes[name]
        if name not in self._eyes:
            self._eyes[name] = self._opened(probe)
        return taken(self._host, name, probe, self._eyes[name])

    def _collect(self, wait: float = 0.0) -> None:
        if self._worker is None:
            return
        for name, sample in self._worker.answers(wait):
            if sample is not None:
                self._not_before[name] += note(name, self._probes[name], self._sink, sample) / SHARE
                self._pause[name] = DEADLINE
        for name in self._worker.late():
            self._note_late(name)

    def _close(self) -> None:
        with suppress(Unreadable, Unparsable):
            guarded(self._watched.close)

    def _collect_all(self) -> None:
        while self._worker is not None and self._worker.waiting:
            self._collect(wait=0.05)
            while self._due and self._due[0][0] <= time.monotonic():
                self._do_next()

    def _note_late(self, name: str) -> None:
        """It is asked again after a pause, each time a longer one."""
        probe = self._probes[name]
        late = Unreadable(f"probe {name}", f"no answer in {DEADLINE:g} s")
        self._sink.look(name, probe.GIVES, self._host.now(), all_blind(probe, late))
        self._not_before[name] = time.monotonic() + self._pause[name]
        self._pause[name] = min(2 * self._pause[name], LONGEST_PAUSE)

    def _opened(self, probe: ModuleType) -> Eye:
        """How a probe samples: by reading again each time, or, if it keeps something open, by its `watch`."""
        if not hasattr(probe, "watch"):
            return partial(probe.read, self._host)
        try:
            eye = guarded(lambda: self._watched.enter_context(probe.watch(self._host)))
        except (Unreadable, Unparsable) as error:
            return raiser(error)
        return raiser(Unreadable("watch", f"broken: {eye.why}")) if isinstance(eye, Broken) else eye
