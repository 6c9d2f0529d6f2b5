"""A short recording in memory: all that a live diagnosis uses."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Container

from zombiescope.core import Host
from zombiescope.members.rooms import healthy
from zombiescope.recorder.clock import ahead_ns
from zombiescope.recorder.loop import Loop
from zombiescope.recorder.sampling import Fetched, Sample, note, seen
from zombiescope.recorder.tape import Tape

SELDOM = 60.0  # seconds: a probe with a longer interval is not run once more at the end
PACE = 1.0  # seconds between two readings of the rings of samples: at 999 Hz a ring of 256 KB lasts some three


class _OnTape:
    """Parses at once what is sampled."""

    def __init__(self, host: Host, tape: Tape) -> None:
        self._host, self._tape, self._probes = host, tape, healthy("probes")

    def fetched(self, name: str, fetched: Fetched) -> None:
        probe, at = self._probes[name], (fetched.at + ahead_ns()) / 1e9
        readings, blind = seen(name, probe, lambda: probe.told([(at, fetched.content)]))
        note(name, probe, self._tape, Sample(at, readings, blind, fetched.cost))

    def sample(self, name: str, sample: Sample) -> None:
        note(name, self._probes[name], self._tape, sample)


def record(
    host: Host,
    seconds: float,
    progress: Callable[[float], None] | None = None,
    only: Container[str] | None = None,
    hz: int = 0,
) -> Tape:
    """Record a live machine for `seconds`; all probes, or `only` some, run at least at the start and at the end.

    With `hz` the stacks of every core are sampled too. A recorded root does not change, so it is read once. Ctrl-C
    ends the recording early and keeps it.
    """
    tape = Tape()
    with contextlib.ExitStack() as stack:
        loop = stack.enter_context(Loop(host, _OnTape(host, tape), only))
        if hz and host.live and seconds > 0:
            from zombiescope.recorder.stacks import StackStream

            stacks = stack.enter_context(StackStream(host, tape, hz=hz))
            tape.hz = stacks.hz
            stack.callback(stacks.read)

            def take() -> float:
                stacks.read()
                return PACE

            loop.every(take)
        loop.look_at_all()
        if host.live and seconds > 0:
            started = time.monotonic()
            if progress is not None:
                loop.every(lambda: progress(time.monotonic() - started) or 0.25)
            with contextlib.suppress(KeyboardInterrupt):
                loop.run(seconds)
            loop.look_at_all(slowest=SELDOM)
    return tape
