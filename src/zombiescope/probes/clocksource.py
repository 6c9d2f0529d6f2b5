"""The clock that the kernel uses, those that it could use, and how long it takes to ask for the time.

Overhead: two reads, and 400 calls of clock_gettime: 40 µs with a fast clock, 0.5 ms with a slow one, once a minute.
Kernel: /sys/devices/system/clocksource, Documentation/timers/timekeeping.rst. Which are fast cannot be told by name:
    with tsc, kvm-clock and Hyper-V's page the call never enters the kernel (vDSO), with hpet, acpi_pm and xen it does
    each time. CLOCK_MONOTONIC_COARSE is answered by the vDSO without any clock (lib/vdso/gettimeofday.c, do_coarse): it
    shows what the call itself takes on this processor.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

from zombiescope.core import Blind, Host, Reading, Unparsable

EVERY = 60.0
COST = "clock_read_seconds"
CALL = "clock_call_seconds"
GIVES = (COST, "clocksources", CALL)
CALLS = 200  # times in a row: enough that one preemption does not matter, as the shortest of five rounds counts
COARSE = 6  # CLOCK_MONOTONIC_COARSE, which Python does not name
_FOLDER = "/sys/devices/system/clocksource/clocksource0"


def read(host: Host) -> Iterator[Reading | Blind]:
    current, available = f"{_FOLDER}/current_clocksource", f"{_FOLDER}/available_clocksource"
    name, known = parse(host.read(current), current), host.read(available).split()
    at = host.now()
    text = " ".join(known)
    yield Reading(what=GIVES[1], subject=f"clock:{name}", value=len(known), at=at, source=available, text=text)
    if not host.live:
        for what in (COST, CALL):
            yield Blind(what=what, source=current, why="a copy of files has no clock to ask")
        return
    source = f"$ cat {current}"
    rounds = [(_round(time.CLOCK_MONOTONIC), _round(COARSE)) for _ in range(5)]  # in turn: a slow moment hits both
    for what, took in zip((COST, CALL), zip(*rounds, strict=True), strict=True):
        yield Reading(what=what, subject=f"clock:{name}", value=min(took), at=at, source=source, text=name)


def _round(clock: int) -> float:
    """Seconds for one call, Python's own share included: some 60 ns."""
    started = time.perf_counter()
    for _ in range(CALLS // 5):
        time.clock_gettime(clock)
    return (time.perf_counter() - started) / (CALLS // 5)


# tsc
def parse(text: str, source: str) -> str:
    name = text.strip()
    if not name or len(name) > 64 or not name.isprintable():
        raise Unparsable(source, 1, text)
    return name
