"""A running recording: probes and stacks into a journal, with its own cost, until it is stopped."""

from __future__ import annotations

import ctypes
import gc
import os
import platform
import signal
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Any

import pyarrow as pa

from zombiescope import __version__
from zombiescope.core import Host, Reading, Unreadable, UserError, amount, harmless, lasting
from zombiescope.recorder.clock import ahead_ns
from zombiescope.recorder.journal import Journal
from zombiescope.recorder.layout import TROUBLE
from zombiescope.recorder.loop import Loop
from zombiescope.recorder.stack_series import EVENTS, GIVES, NAME
from zombiescope.recorder.stacks import StackStream

FLUSH = 1.0  # seconds: what a kill -9 may cost
OWN_COST = "recorder_cpu_seconds_total"


class Flight:
    """One running recorder."""

    add: Callable[[Reading], None]
    look: Callable[..., None]
    chunk: Callable[[str, Mapping[str, Any]], None]

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
    ) -> None:
        self._host, self._folder, self._hours, self._most_bytes = host, folder, hours, most_bytes
        self._hz, self._user, self._settings = hz, user, settings
        self._stack = ExitStack()

    def __enter__(self) -> Flight:
        # Arrow's own allocator keeps its memory; a recorder's peaks are short and should be returned.
        pa.set_memory_pool(pa.system_memory_pool())
        self._loop = Loop(self._host, self)
        # Stacks first: meta.json says whether there are any.
        self.stacks = (
            self._stack.enter_context(StackStream(self._host, self, hz=self._hz, user=self._user)) if self._hz else None
        )
        self._journal = Journal(
            self._folder,
            self._meta(),
            hours=self._hours,
            most_bytes=self._most_bytes,
            events=(*self._loop.events, *EVENTS, TROUBLE),
        )
        self._stack.callback(self._journal.close)
        # All that is recorded goes there directly: it is the recorder's hot path.
        self.add, self.look, self.chunk = self._journal.add, self._journal.look, self._journal.chunk
        self._stack.enter_context(self._loop)
        return self

    @property
    def blind(self) -> list[str]:
        return self.stacks.blind if self.stacks else []

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @property
    def began(self) -> int:
        return self._journal.began

    def run(
        self,
        seconds: float,
        status: Callable[[str], None] | None = None,
        warn: Callable[[str], None] = lambda _: None,
    ) -> None:
        """Record for `seconds`, or until SIGINT or SIGTERM; the recording is complete then.

        `warn` gets each trouble once. If there is no room within the limit, recording ends with a UserError.
        """
        self._started, self._spent = time.monotonic(), time.process_time()
        self._warn, self._warned = warn, 0
        _settle()
        self._loop.every(self._flush, after=FLUSH)
        if status is not None:
            self._loop.every(lambda: status(self.summary()) or FLUSH, after=FLUSH)
        with self._stopped_by_signals():
            self._loop.look_at_all()
            self._flush()
            self._loop.run(seconds)
            self._flush()
            self._journal.rotate()
            self._warn_once()
        if self._journal.full:
            raise UserError(
                f"{self._folder}: recording ended: {self._journal.full}; {harmless(self._journal.troubles[-1])}"
            )

    def summary(self) -> str:
        """One line: how long, how much, at what cost."""
        passed = max(time.monotonic() - self._started, 1e-3)
        cost = (time.process_time() - self._spent) / passed
        parts = [
            f"recorded {lasting(passed)}",
            f"{self._journal.readings / passed:,.0f} readings/s",
            *self._sampled(passed),
            f"{amount(self._journal.bytes)} in {len(self._journal.segments())} segments",
            f"used {cost:.2%} of one core",
        ]
        if self._journal.dropped:
            parts.append(f"{self._journal.dropped} oldest segments dropped")
        if self._journal.troubles:
            parts.append(f"ERROR: {harmless(self._journal.troubles[-1])}")
        return ", ".join(parts)

    def _sampled(self, passed: float) -> list[str]:
        if self.stacks is None or not self.stacks.hz:
            return ["no stacks"]
        return [f"{self.stacks.samples / passed:,.0f} samples/s", f"{self.stacks.lost} lost"]

    def _flush(self) -> float:
        if self.stacks is not None:
            self.stacks.read()
        self._loop.tell()
        at = self._host.now()
        self.add(Reading(what=OWN_COST, subject="node", value=time.process_time(), at=at, source="clock_gettime(2)"))
        segment = self._journal.began
        self._journal.flush(at)
        if self._journal.began != segment:
            _give_back()
        self._warn_once()
        if self._journal.full:
            self._loop.stopped = True
        return FLUSH

    def _warn_once(self) -> None:
        for trouble in self._journal.troubles[self._warned :]:
            self._warn(harmless(trouble))
        self._warned = len(self._journal.troubles)

    @contextmanager
    def _stopped_by_signals(self) -> Iterator[None]:
        """A flag, not an exception: the batch that is being written is completed first."""

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
            "boot_id": self._said("/proc/sys/kernel/random/boot_id"),
            "architecture": platform.machine(),
            "cores": os.cpu_count(),
            "started": time.time(),
            # Unix time minus the kernel's clocks when recording began, to convert the kernel's timestamps.
            "clocks": {"monotonic": ahead_ns() / 1e9, "boottime": ahead_ns(time.CLOCK_BOOTTIME) / 1e9},
            "hz": self.stacks.hz if self.stacks else 0,
            "sampled": self.stacks.event if self.stacks else "",
            "blind": self.blind,
            "gives": self._loop.gives | ({NAME: GIVES} if self.stacks else {}),
            "settings": list(self._settings),
        }

    def _said(self, path: str) -> str:
        try:
            return self._host.read(path, most=4096).strip()
        except Unreadable:
            return ""


def _settle() -> None:
    """What was created at startup stays: the garbage collector need not check it again."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(20_000, 20, 20)  # what a second creates is freed a second later, without reference cycles
    _give_back()


def _give_back() -> None:
    """Peaks are short (symbols read, a segment written): ask the C library to return the memory."""
    ctypes.CDLL(None).malloc_trim(0)
