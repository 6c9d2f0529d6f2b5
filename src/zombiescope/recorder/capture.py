"""A running recording: what the probes and the rings say, as it comes, into heads; with its own cost, until stopped.

Nothing is parsed or named here but what a probe must parse to read at all: settle does it, later, in a process of its
own. Standard library only: this process stays small, and nothing that it imports can surprise it.
"""

from __future__ import annotations

import os
import platform
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

from zombiescope import __version__
from zombiescope.core import Host, Reading, Unreadable, UserError, amount, harmless, lasting
from zombiescope.recorder.alarms import Alarms
from zombiescope.recorder.budget import Budget, default_share, spent
from zombiescope.recorder.changes import MINUTE
from zombiescope.recorder.clock import ahead_ns
from zombiescope.recorder.head import RECORDER, HeadSink
from zombiescope.recorder.heads import LARGEST, DiskThread, Heads
from zombiescope.recorder.layout import BOOT_ID, BUDGET_STEP, SEGMENT_SECONDS, TROUBLE
from zombiescope.recorder.loop import Loop
from zombiescope.recorder.own_process import allow_files, be_lean, freeze, give_back, give_back_text
from zombiescope.recorder.priority import SCHEDSTAT, Priority
from zombiescope.recorder.ring_stream import RingStream
from zombiescope.recorder.side_band import PART, RATE
from zombiescope.recorder.stack_series import EVENTS, GIVES, NAME, SOURCE

FLUSH = 2.0  # seconds: what a kill -9 may cost
PATIENCE = 10.0  # seconds: at the end, for a sick disk
SAYS = 5.0  # seconds between two readings of its own cost
SEGMENT_SHARE = 0.125  # of the limit: a head that fills faster ends earlier, so that dropping one is a small loss
SMALLEST = 1 << 20  # bytes of a head: each begins with every value
OWN_COST, OWN_MEMORY, OWN_RINGS = "recorder_cpu_seconds_total", "recorder_memory_bytes", "recorder_ring_bytes"
OWN_DELAY = "recorder_run_delay_seconds_total"  # that it had no core: a node that starves its recorder starves others
OWN = (OWN_COST, OWN_MEMORY, OWN_RINGS, OWN_DELAY)


class Capture:
    """One running recorder."""

    def __init__(
        self,
        host: Host,
        folder: str,
        *,
        hours: float,
        most_bytes: int,
        hz: int,
        user: bool,
        settings: tuple[str, ...] = (),
        budget: float | None = None,
        alarm: Callable[[Reading], None] | None = None,
        segment: float = 0.0,
        settle_late: float = 0.0,
    ) -> None:
        """`segment`: seconds after which a head ends, however little is in it; `settle_late`: see Settling."""
        self._host, self._folder, self._hours, self._most_bytes = host, folder, hours, most_bytes
        self._hz, self._user, self._settings = hz, user, settings
        self._share = default_share(os.cpu_count() or 1) if budget is None else budget
        self._alarm = alarm  # gets what is worth a look
        self._segment, self._late = segment, settle_late
        self._stack = ExitStack()
        self._rings: RingStream | None = None
        self._head_began = time.monotonic()
        self._say_next = self._tidy_next = 0.0
        self._priority = Priority()
        self._noted: set[str] = set()  # troubles in this head

    def __enter__(self) -> Capture:
        allow_files()
        be_lean()
        self._disk = DiskThread()
        self._sink = HeadSink(self._disk.write, boot=self._said(BOOT_ID))
        alarms = Alarms(self._sink, self._alarm) if self._alarm else None
        self._loop = Loop(self._host, alarms or self._sink)
        self._sink.events = frozenset((*self._loop.events, *EVENTS, TROUBLE, BUDGET_STEP))
        if alarms:
            alarms.told, alarms.events = frozenset(self._loop.alarms), self._sink.events
        with ExitStack() as undo:
            if self._hz:
                side = min(RATE, int(PART * self._most_bytes))
                stream = RingStream(self._host, self._sink, hz=self._hz, user=self._user, side=side)
                self._rings = undo.enter_context(stream)
            self._heads = Heads(
                self._folder, self._meta(), hours=self._hours, most_bytes=self._most_bytes, settle_late=self._late
            )
            self._disk.start(self._heads)
            undo.callback(self._disk.close)
            undo.enter_context(self._loop)
            self._stack = undo.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()
        self._priority.give_back()

    @property
    def blind(self) -> list[str]:
        return self._rings.blind if self._rings else []

    def run(
        self,
        seconds: float,
        status: Callable[[str], None] | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Record for `seconds`, or until SIGINT or SIGTERM; the recording is complete then.

        `warn` gets each trouble once. If there is no room within the limit, recording ends with a UserError.
        """
        self._started, self._spent = time.monotonic(), spent()
        self._warn, self._warned = warn, 0
        hz = self._rings.hz if self._rings else 0
        self._budget = Budget(self._share, hz=hz, user=self._user, now=self._started, spent=self._spent)
        freeze()
        self._loop.sleep = self._slept
        self._loop.every(self._flush, after=FLUSH)
        if status is not None:
            self._loop.every(lambda: status(self.summary()) or FLUSH, after=FLUSH)
        with self._stopped_by_signals():
            self._loop.look_at_all()
            self._flush()  # which also gives back what the first samples took: the longest are read once
            give_back_text()
            self._loop.run(seconds)
            self._say_own_cost()
            self._flush()
            self._next_head()
            self._disk.end()
            self._disk.wait(PATIENCE)
            self._warn_once()
        if self._heads.full:
            raise UserError(
                f"{self._folder}: recording ended: {self._heads.full}; {harmless(self._heads.troubles[-1])}"
            )

    def summary(self) -> str:
        """One line: how long, how much, at what cost."""
        passed = max(time.monotonic() - self._started, 1e-3)
        cost = (spent() - self._spent) / passed
        parts = [
            f"recorded {lasting(passed)}",
            f"{self._sink.readings / passed:,.0f} readings/s",
            *self._sampled(passed),
            f"{amount(self._heads.size)} on disk",
            f"used {cost:.2%} of one core",
        ]
        if self._budget.level:
            parts.append(f"over budget: {self._budget.step.words}")
        if self._heads.dropped:
            parts.append(f"{self._heads.dropped} oldest segments dropped")
        if self._heads.troubles:
            parts.append(f"ERROR: {harmless(self._heads.troubles[-1])}")
        return ", ".join(parts)

    def _sampled(self, passed: float) -> list[str]:
        if self._rings is None or not self._rings.hz:
            return ["no stacks"]
        return [f"{amount(self._sink.ring_bytes / passed)}/s of stacks", f"{self._rings.lost} lost"]

    def _slept(self, seconds: float) -> None:
        """Sleep. If the clock was set meanwhile, what was read before keeps the one before."""
        (self._rings.sleep if self._rings is not None else time.sleep)(seconds)
        if self._sink.clock_was_set:
            self._flush()

    def _flush(self) -> float:
        if self._disk.lost:  # the next one begins with every value
            self._heads.happened.extend(self._noted)
            self._next_head()
        if self._rings is not None:
            self._rings.read()
        self._loop.collect()
        self._keep_to_budget()
        if time.monotonic() >= self._say_next:
            self._say_own_cost()
        if time.monotonic() >= self._tidy_next:
            self._tidy_next = time.monotonic() + MINUTE
            self._sink.changes.forget(time.time())
            give_back()
        self._note_troubles()
        self._sink.flush()
        if self._is_full():
            self._next_head()
        self._warn_once()
        if self._heads.full:
            self._loop.stopped = True
        return FLUSH

    def _keep_to_budget(self) -> None:
        why, at = self._budget.check(time.monotonic(), spent()), self._host.now()
        if not why:
            return
        step, level = self._budget.step, self._budget.level
        if self._rings is not None:
            self._rings.change(hz=step.hz, user=step.user)
        self._loop.stretch = step.stretch
        said = Reading(what=BUDGET_STEP, subject="node", value=level, at=at, source="getrusage(2)", text=why)
        self._sink.note(at, said)

    def _say_own_cost(self) -> None:
        self._priority.check()
        self._say_next = time.monotonic() + SAYS
        at = self._host.now()
        said = {OWN_COST: (spent(), "getrusage(2)")}
        with open("/proc/self/statm") as file:
            pages = int(file.read().split()[1])
        said[OWN_MEMORY] = (pages * os.sysconf("SC_PAGE_SIZE"), "/proc/self/statm")
        said[OWN_DELAY] = (self._priority.waited, SCHEDSTAT)
        said[OWN_RINGS] = (self._rings.bytes if self._rings else 0, SOURCE)
        self._sink.note(
            at, *(Reading(what=it, subject="node", value=said[it][0], at=at, source=said[it][1]) for it in said)
        )

    def _is_full(self) -> bool:
        most = min(LARGEST, max(SMALLEST, SEGMENT_SHARE * self._heads.most_bytes))
        longest = self._segment or SEGMENT_SECONDS
        return time.monotonic() - self._head_began >= longest or self._sink.bytes >= most

    def _next_head(self) -> None:
        self._disk.next_head()
        self._head_began = time.monotonic()
        self._noted.clear()
        self._sink.begin(self._disk.write)

    def _note_troubles(self) -> None:
        """Once in each head, where `info` finds it."""
        at = self._host.now()
        while self._heads.happened:
            trouble = self._heads.happened.pop(0)
            if trouble not in self._noted:
                self._noted.add(trouble)
                said = Reading(what=TROUBLE, subject="node", value=1.0, at=at, source=self._folder, text=trouble)
                self._sink.note(at, said)

    def _warn_once(self) -> None:
        for trouble in self._heads.troubles[self._warned :]:
            self._warn(harmless(trouble))
        self._warned = len(self._heads.troubles)

    @contextmanager
    def _stopped_by_signals(self) -> Iterator[None]:
        """A flag, not an exception: the head that is being written is completed first."""

        def stop(*_: object) -> None:
            self._loop.stopped = True

        before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _meta(self) -> dict[str, Any]:
        return {
            "zombiescope": __version__,
            "node": self._said("/proc/sys/kernel/hostname"),
            "kernel": self._said("/proc/sys/kernel/osrelease"),
            "boot_id": self._said(BOOT_ID),
            "architecture": platform.machine(),
            "cores": os.cpu_count(),
            "started": time.time(),
            # Unix time minus the kernel's clocks when recording began, to convert the kernel's timestamps.
            "clocks": {"monotonic": ahead_ns() / 1e9, "boottime": ahead_ns(time.CLOCK_BOOTTIME) / 1e9},
            "hz": self._rings.hz if self._rings else 0,
            "sampled": self._rings.event if self._rings else "",
            "budget": self._share,
            "blind": self.blind,
            "gives": self._loop.gives | ({NAME: GIVES} if self._hz else {}) | {RECORDER: OWN},
            "events": sorted(self._sink.events),
            "logs": sorted(self._loop.logs),
            "settings": list(self._settings),
        }

    def _said(self, path: str) -> str:
        try:
            return self._host.read(path, most=4096).strip()
        except Unreadable:
            return ""
