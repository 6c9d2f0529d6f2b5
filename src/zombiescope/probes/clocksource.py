"""The clock that the kernel uses, those that it could use, and how long it takes to ask for the time.

Overhead: two reads, and 200 calls of clock_gettime: 10 µs with a fast clock, 0.5 ms with a slow one, once a minute.
Kernel: /sys/devices/system/clocksource, Documentation/timers/timekeeping.rst. Which are fast cannot be told by name:
    with tsc, kvm-clock and Hyper-V's page the call never enters the kernel (vDSO), with hpet, acpi_pm and xen it does
    each time.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from zombiescope.core import Blind, Host, Reading, Unparsable

EVERY = 60.0
COST = "clock_read_seconds"
GIVES = (COST, "clocksources")
CALLS = 200  # times in a row: enough that one preemption does not matter, as the shortest of five rounds counts
_FOLDER = "/sys/devices/system/clocksource/clocksource0"


def read(host: Host) -> Iterator[Reading | Blind]:
    current, available = f"{_FOLDER}/current_clocksource", f"{_FOLDER}/available_clocksource"
    name, known = parse(host.read(current), current), host.read(available).split()
    at = host.now()
    text = " ".join(known)
    yield Reading(what=GIVES[1], subject=f"clock:{name}", value=len(known), at=at, source=available, text=text)
    if not host.live:
        yield Blind(what=COST, source=current, why="a copy of files has no clock to ask")
        return
    rounds = [_round() for _ in range(5)]
    source = f"$ cat {current}"
    yield Reading(what=COST, subject=f"clock:{name}", value=min(rounds), at=at, source=source, text=name)


def _round() -> float:
    """Seconds for one call, Python's own share included: some 60 ns."""
    started = time.perf_counter()
    for _ in range(CALLS // 5):
        time.clock_gettime(time.CLOCK_MONOTONIC)
    return (time.perf_counter() - started) / (CALLS // 5)


# tsc
def parse(text: str, source: str) -> str:
    name = text.strip()
    if not name or len(name) > 64 or not name.isprintable():
        raise Unparsable(source, 1, text)
    return name
