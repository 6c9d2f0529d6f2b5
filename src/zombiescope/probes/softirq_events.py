"""irq:softirq_raise, softirq_entry and softirq_exit: how long softirqs waited to run, and how long they ran.

A histogram for each core and kind in each sample (powers of two of microseconds, in the reading's text); the value is
the longest. At most MOST of them by core, those with the longest times; the others of a kind together (NET_RX/others).

Overhead: eBPF programs at the three tracepoints, 250 to 290 ns a softirq on a virtual machine, 40 of them in the
    programs: below 16 ms only one in `every` is timed, longer ones are all counted. Beyond SOFTIRQS a second (0.2 %
    of a core) they are timed in a part of the time only: of 50,000, in 2 s of each 12 s. A sample takes 0.5 ms on 2
    cores. `--no-bpf` leaves it out.
Kernel: include/trace/events/irq.h. Needs CAP_BPF and CAP_PERFMON, or root; bpf_jiffies64() for tracing since
    72e2b2b66f9c (in v5.9). A softirq that nobody raised because its interrupt was late is not seen here:
    core_gap_seconds shows that. Threaded NAPI has no softirq: thread_delay has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.kernel import stopwatch, tracepoint_format
from zombiescope.kernel.core_times import CoreTimes
from zombiescope.probes._core_times import allowed, possible_cores, sampled

EVERY = 2.0
WAIT, RUN = GIVES = ("softirq_wait_seconds", "softirq_run_seconds")
EVENTS = GIVES  # each sample is a histogram of its own
CURVES = (("longest wait of a softirq", "s", WAIT, "longest"),)
MOST = 32  # histograms by core, of waits and of runs: 4 kinds on 8 cores
SOURCE = "/sys/kernel/tracing/events/irq"
SOFTIRQS = 8_000.0  # a second that are timed, on the average: 0.2 % of a core, on all cores together
MOST_KINDS = 32  # the kernel keeps what is pending in 32 bits
# In the order in which they are attached: nothing begins that is not seen to end.
PROGRAMS: dict[str, Callable[..., bytes]] = {
    "softirq_exit": stopwatch.left,
    "softirq_entry": stopwatch.entered,
    "softirq_raise": partial(stopwatch.started, stopwatch.RAISED),
}


@contextmanager
def watch(host: Host) -> Iterator[Callable[[], Iterator[Reading | Blind]]]:
    """Keeps the programs attached."""
    allowed(host, SOURCE)
    kinds = kinds_of(tracepoint_format.load(host, *(f"irq/{it}" for it in PROGRAMS)))
    with CoreTimes(possible_cores(host), kinds, PROGRAMS, most=SOFTIRQS) as times:

        def look() -> Iterator[Reading | Blind]:
            return sampled(times, host.now(), SOURCE, {"waits": WAIT, "runs": RUN}, _subject, MOST)

        yield look


def read(host: Host) -> Iterator[Reading]:
    allowed(host, SOURCE)
    raise Unreadable(SOURCE, "waits are seen by watching, not by one sample")
    yield  # a generator, like every probe


def kinds_of(formats: list[tracepoint_format.Format]) -> list[str]:
    """The names of the softirqs, by number, as the tracepoints print them."""
    for it in formats:
        it.only_argument("vec")
    symbols = formats[0].symbols
    if not symbols or len(symbols) > MOST_KINDS or sorted(symbols) != list(range(len(symbols))):
        raise Unreadable(formats[0].source, f"does not name the softirqs: {symbols}")
    return [symbols[it] for it in sorted(symbols)]


def _subject(core: str, kind: str) -> str:
    return f"softirq:{kind}/{core}"
