"""irq:irq_handler_entry and irq_handler_exit: how long the handlers of interrupts ran, on each core.

A histogram for each core in each sample, as softirq_events gives them; the value is the longest.

Overhead: eBPF programs at the two tracepoints, some 160 ns an interrupt; below 16 ms only one in `every` is timed.
    Beyond INTERRUPTS a second they are timed in a part of the time only. `--no-bpf` leaves it out.
Kernel: include/trace/events/irq.h. Not seen: the local timer and messages between cores, which have tracepoints of
    their own, and threaded handlers (thread_delay has these).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.kernel import stopwatch
from zombiescope.kernel.core_times import CoreTimes
from zombiescope.probes._core_times import allowed, possible_cores, sampled

EVERY = 2.0
GIVES = ("irq_handler_seconds",)
EVENTS = GIVES
MOST = 16  # cores, those with the longest; the others together
INTERRUPTS = 1_500.0  # a second that are timed, on the average: 0.024 % of a core, on all cores together
SOURCE = "/sys/kernel/tracing/events/irq"
PROGRAMS: dict[str, Callable[..., bytes]] = {
    "irq_handler_exit": stopwatch.left,
    "irq_handler_entry": partial(stopwatch.started, stopwatch.ENTERED),
}


@contextmanager
def watch(host: Host) -> Iterator[Callable[[], Iterator[Reading | Blind]]]:
    """Keeps the programs attached."""
    allowed(host, SOURCE)
    with CoreTimes(possible_cores(host), ("irq",), PROGRAMS, most=INTERRUPTS) as times:

        def look() -> Iterator[Reading | Blind]:
            return sampled(times, host.now(), SOURCE, {"runs": GIVES[0]}, lambda core, _: f"cpu:{core}", MOST)

        yield look


def read(host: Host) -> Iterator[Reading]:
    allowed(host, SOURCE)
    raise Unreadable(SOURCE, "handlers are timed by watching, not by one sample")
    yield  # a generator, like every probe
