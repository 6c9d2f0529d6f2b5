"""The sampling loop: every probe at its own interval, every sample noted with its failure and its cost.

The doctor must not infect: a probe that is expensive on this node is run less often, so that no probe takes more than
`SHARE` of one core, however much the fault makes it cost. Nor be stopped by the disease: probes run in a thread of
their own with a deadline; the main thread, which also drains the rings, only fetches what is read many times a second,
from a file that no lock of the kernel stands before (/proc/stat).
"""

from __future__ import annotations

import heapq
import itertools
import math
import time
from collections.abc import Callable, Container
from contextlib import ExitStack, suppress
from functools import partial
from types import ModuleType
from typing import Protocol

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.kernel.fetched import fetching
from zombiescope.members.rooms import Broken, guarded, member, names
from zombiescope.recorder.often import OFTEN, Often
from zombiescope.recorder.sampling import SHARE, Eye, Fetched, Sample, all_blind, failure, raiser
from zombiescope.recorder.worker import DEADLINE, Worker

LONGEST_PAUSE = 600.0  # seconds: a probe that was late is asked again after that at the latest
# Seconds: what is due is done at multiples of these from the first time on, together with all else, what has a longer
# interval than the second at multiples of that. To wake a thread takes 50 µs, and all that it calls is cold then: a
# probe of 20 µs takes 250 µs if it runs alone.
GRID, COARSE = 0.25, 2.0
Act = Callable[[], float]  # returns the seconds until the next time


class Sink(Protocol):
    """Where samples go: a head, on disk or in memory."""

    def fetched(self, name: str, fetched: Fetched) -> None: ...

    def sample(self, name: str, sample: Sample) -> None: ...


class Loop:
    """Probes that sample a machine in turn, and whatever else is due now and then."""

    def __init__(self, host: Host, sink: Sink, only: Container[str] | None = None) -> None:
        self._host, self._sink = host, sink
        # What a broken probe would have given is unknown: a sign that needs it finds that nothing looked for it.
        wanted = [it for it in names("probes") if only is None or it in only]
        loaded = {name: member("probes", name) for name in wanted}
        self._probes = {name: it for name, it in loaded.items() if not isinstance(it, Broken)}
        self._eyes: dict[str, Eye] = {}
        # A recorded root does not change: its files are read and parsed at once, once.
        files = {name: it for name, it in self._probes.items() if host.live and hasattr(it, "FILES")}
        often = {name: it for name, it in files.items() if it.EVERY < OFTEN}
        self._held_often, self._watched = ExitStack(), ExitStack()  # what each of the two threads opens, it closes
        self._fetches = {
            name: (self._held_often if name in often else self._watched).enter_context(fetching(host, it.FILES))
            for name, it in files.items()
        }
        self._often = Often(host, often, self._fetches, self._on_grid)
        self._phase = math.nan  # when the first thing was due
        self._not_before = dict.fromkeys(self._probes, 0.0)  # a costly or late probe waits, by the monotonic clock
        self._pause = dict.fromkeys(self._probes, DEADLINE)  # seconds after the next time it is late
        self._worker: Worker | None = None  # none for a recorded root: nothing in it blocks
        self._taken: dict[str, Sample | Fetched] = {}  # by the worker, the last of each probe
        self._unnoted: list[tuple[str, Sample | Fetched]] = []  # of a recorded root
        self._due: list[tuple[float, int, Act]] = []
        self._turn = itertools.count()  # ties are broken by who was first
        self._scheduled = self.stopped = False
        self.stretch = 1.0  # times the interval of each probe: a recorder beyond its budget samples less often
        self.sleep: Callable[[float], object] = time.sleep

    def __enter__(self) -> Loop:
        self._worker = Worker() if self._host.live else None
        return self

    def __exit__(self, *_: object) -> None:
        self._held_often.close()
        if self._worker is not None:  # it closes what it opened, by its deadline: what hangs goes with the process
            self._worker.ask("", self._close)
            while self._worker.waiting:
                self._worker.done(wait=0.1)
                self._worker.late()
            self._worker.close()

    @property
    def gives(self) -> dict[str, tuple[str, ...]]:
        return {name: tuple(probe.GIVES) for name, probe in self._probes.items()}

    @property
    def events(self) -> tuple[str, ...]:
        """What is an event and not a value that holds: each one is kept."""
        return self._flagged("EVENTS")

    @property
    def alarms(self) -> tuple[str, ...]:
        """What is worth a look before the next one is due."""
        return self._flagged("ALARMS")

    @property
    def logs(self) -> tuple[str, ...]:
        """What a probe's first sample tells of the minutes before it, too."""
        return tuple(what for it in self._probes.values() if hasattr(it, "PAST") for what in getattr(it, "EVENTS", ()))

    def _flagged(self, flag: str) -> tuple[str, ...]:
        return tuple(what for probe in self._probes.values() for what in getattr(probe, flag, ()))

    def look_at_all(self, slowest: float = float("inf")) -> None:
        """Sample every probe once, and wait for all of them; what is due in the meantime is done, with its samples."""
        self._schedule()
        for name, probe in self._probes.items():
            if slowest < probe.EVERY:
                continue
            if self._worker is None or name in self._often:
                self._note(name, self._sampled(name))
            else:
                self._ask(self._worker, name)
        self._collect_all()

    def every(self, act: Act, after: float = 0.0) -> None:
        """Do something now and then: it returns when it is next due."""
        heapq.heappush(self._due, (self._on_grid(time.monotonic(), after), next(self._turn), act))

    def run(self, seconds: float) -> None:
        """Sample for `seconds`, or until `stopped`."""
        start = last = time.monotonic()
        self._schedule()
        while not self.stopped and (due := self._due[0][0]) < start + seconds:
            if self._worker is not None and due > last:
                self._worker.begin()  # all that was due at the same time is asked; on a starved node we never sleep
            last = due
            self._fetch_until(due)
            if not self.stopped:
                self._do_next()
        self._fetch_until(start + seconds)
        self._collect_all()

    def collect(self, wait: float = 0.0) -> None:
        """Hand over what was sampled in the meantime."""
        unnoted, self._unnoted = self._unnoted, []
        for name, fetched in (*unnoted, *self._often.take()):
            self._note(name, fetched)
        if self._worker is None:
            return
        for name in self._worker.done(wait):
            self._not_before[name] += self._note(name, self._taken.pop(name)) / SHARE
            self._pause[name] = DEADLINE
        for name in self._worker.late():
            self._note_late(name)

    def _schedule(self) -> None:
        """Every probe at its own interval from now on."""
        if not self._scheduled:
            self._scheduled = True
            for name, probe in self._probes.items():
                if name in self._often:
                    self._often.begin(name, self._on_grid(time.monotonic(), probe.EVERY))
                else:
                    self.every(partial(self._look, name), after=probe.EVERY)

    def _do_next(self) -> None:
        when, _, act = self._due[0]
        pause = act()
        # Keep the interval; after a stall (SIGSTOP, a starved core) continue from now instead of catching up.
        heapq.heapreplace(self._due, (max(self._on_grid(when, pause), time.monotonic()), next(self._turn), act))

    def _fetch_until(self, due: float) -> None:
        """Sleep until then; what is read many times a second is fetched in between."""
        while not self.stopped:
            if (wait := min(due, self._often.due) - time.monotonic()) > 0:
                self.sleep(wait)  # less, if a ring is nearly full
            elif self._often.due <= due:
                self._often.fetch(self.stretch)
            else:
                return

    def _look(self, name: str) -> float:
        every = self.stretch * float(self._probes[name].EVERY)
        if self._worker is None:
            sample = self._sampled(name)
            self._unnoted.append((name, sample))
            return max(every, sample.cost / SHARE)
        if self._worker.waits(name):
            self.collect()  # an answer that is not taken keeps its probe from being asked again
        wait = self._not_before[name] - time.monotonic()
        if wait > 0:
            return wait
        self._ask(self._worker, name)
        return every

    def _ask(self, worker: Worker, name: str) -> None:
        if worker.hangs(name):
            self._note_late(name)
        elif not worker.waits(name):
            self._not_before[name] = time.monotonic()
            worker.ask(name, partial(self._take, name))

    def _take(self, name: str) -> None:
        """In the worker's thread: whatever blocks, blocks there; opening, too."""
        self._taken[name] = self._sampled(name)

    def _sampled(self, name: str) -> Sample | Fetched:
        started, probe, fetch = time.thread_time(), self._probes[name], self._fetches.get(name)
        said: list[Reading | Blind] = []
        if fetch is not None:  # parsed when it is read
            try:
                content = fetch()
                return Fetched(time.monotonic_ns(), content, time.thread_time() - started)
            except Unreadable as error:
                failed: list[Blind] | None = all_blind(probe, error)
        else:
            eye = self._eyes.get(name) or self._eyes.setdefault(name, self._opened(probe))
            failed = failure(name, probe, said, lambda: said.extend(eye()))
        readings = () if failed is not None else tuple(it for it in said if not isinstance(it, Blind))
        blind = [it for it in said if isinstance(it, Blind)] if failed is None else failed
        # The time after the read, so that what was read holds at the time of the sample.
        return Sample(self._host.now(), readings, blind, time.thread_time() - started)

    def _note(self, name: str, sample: Sample | Fetched) -> float:
        """Returns what it cost."""
        if isinstance(sample, Fetched):
            self._sink.fetched(name, sample)
        else:
            self._sink.sample(name, sample)
        return sample.cost

    def _close(self) -> None:
        with suppress(Unreadable, Unparsable):
            guarded(self._watched.close)

    def _collect_all(self) -> None:
        self.collect()
        while self._worker is not None and self._worker.waiting:
            self.collect(wait=0.05)
            if self._often.due <= time.monotonic():
                self._often.fetch(self.stretch)
            while self._due and self._due[0][0] <= time.monotonic():
                self._do_next()

    def _note_late(self, name: str) -> None:
        """It is asked again after a pause, each time a longer one."""
        late = Unreadable(f"probe {name}", f"no answer in {DEADLINE:g} s")
        self._sink.sample(name, Sample(self._host.now(), (), all_blind(self._probes[name], late), 0.0))
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

    def _on_grid(self, start: float, pause: float) -> float:
        """The next time of the grid after a pause; a pause that is shorter than the grid is kept as it is."""
        if math.isnan(self._phase):
            self._phase = start
        if pause < GRID:
            return start + pause
        step = COARSE if pause >= COARSE else GRID
        # Less than a thousandth late is rounding.
        return self._phase + math.ceil((start + pause - self._phase) / step - 1e-3) * step
