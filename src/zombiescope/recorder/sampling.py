"""One sample of one probe: what it gave, what it could not read, what it cost."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from types import ModuleType
from typing import NamedTuple, Protocol

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.members.rooms import Broken, guarded

SHARE = 0.005  # of one core, for one probe: a dozen expensive probes together stay below a tenth of a core
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
    started = time.thread_time()
    readings, blind = seen(name, probe, eye or partial(probe.read, host))
    at = host.now()  # after the read, so that what was read holds at the time of the sample
    for reading in readings:
        sink.add(reading)
    sink.look(name, probe.GIVES, at, blind)
    cost = time.thread_time() - started
    sink.add(Reading(what=COSTS, subject=f"probe:{name}", value=cost, at=at, source=CLOCK))
    return cost


def seen(name: str, probe: ModuleType, eye: Eye) -> tuple[tuple[Reading, ...], Sequence[Blind]]:
    said: list[Reading | Blind] = []
    failed = failure(name, probe, said, lambda: said.extend(eye()))
    readings = () if failed is not None else tuple(it for it in said if not isinstance(it, Blind))
    return readings, [it for it in said if isinstance(it, Blind)] if failed is None else failed


def failure(
    name: str, probe: ModuleType, said: Sequence[Reading | Blind], act: Callable[[], object]
) -> list[Blind] | None:
    """Run a probe's code, which fills `said`. If it failed: why nothing that it gives is known."""

    def checked() -> None:
        act()
        for it in said:
            if not isinstance(it, Blind):
                it.at + it.value  # not numbers: it fails here, before half of it is written down
                it.what + it.subject + it.source + it.text  # nor texts

    try:
        found = guarded(checked)
    except (Unreadable, Unparsable) as error:
        return all_blind(probe, error)
    return all_blind(probe, Unreadable(f"probe {name}", f"broken: {found.why}")) if isinstance(found, Broken) else None


def all_blind(probe: ModuleType, error: Unreadable | Unparsable) -> list[Blind]:
    return [Blind(what=what, source=error.source, why=error.why) for what in probe.GIVES]


def raiser(error: Exception) -> Eye:
    def look() -> Iterable[Reading | Blind]:
        raise error

    return look
