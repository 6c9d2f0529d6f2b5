"""Sample what every core runs, continuously and at low cost.

One event for each core writes into a ring that this process has mapped; reading costs no system call. Nothing is
filtered: the idle task is reported as well, with a softirq that may run on top of it; the reader decides by the leaf.

Overhead: measured on two busy virtual cores, reading once a second: 0.05 to 0.09 % of a core at 49 Hz, 0.07 to 0.09 %
    at 99 Hz; five times a second at 999 Hz: 0.47 to 0.66 %, nothing lost. With simulated rings of 96 cores 1.8 µs a
    sample: 0.9 % of one core at 49 Hz. The kernel takes about 25 µs for each sample on a nested virtual machine:
    0.12 % of every core at 49 Hz.
Kernel: the hardware's cycles where there is a PMU: sampled by NMI on x86, so also with interrupts off, and on arm64 if
    booted with irqchip.gicv3_pseudo_nmi=1. Else the cpu-clock, a timer, which waits for interrupts; see gaps().
    It ticks on idle cores too, until the kernel throttles it: it allows a number of samples (max_sample_rate / HZ)
    from one scheduler tick to the next, and a core that is idle for long has no such ticks. The next tick resumes it.
"""

from __future__ import annotations

import errno
import threading
from collections.abc import Iterable
from contextlib import ExitStack, suppress
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zombiescope.core.errors import Unparsable, Unreadable, UserError
from zombiescope.kernel.closing import Closing
from zombiescope.kernel.perf_records import Record, Throttle, parse
from zombiescope.kernel.perf_ring import Ring, blindness, refusal, richest
from zombiescope.kernel.perf_stacks import RawStack, StackTable
from zombiescope.kernel.perf_weights import Weights
from zombiescope.kernel.text import cores

# A core that is late by a whole period missed a tick; less is normal timer jitter, above all on virtual machines.
PERIODS = 2.0
ONLINE = "/sys/devices/system/cpu/online"
_MAX_RATE = "/proc/sys/kernel/perf_event_max_sample_rate"
# Measured on an idle and on a busy virtual core: 98 of 100 ticks within 50 µs of the grid, all but one of 500 at 49 Hz
# within 200 µs. Smaller at high rates, where that would be a large part of a period.
_ON_GRID_NS, _ON_GRID = 100_000, 0.05
_MOST_CORES = 65_536  # more than any kernel can be built for


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class RawSamples:
    """What was sampled between two reads, in order of time, as columns of one length."""

    time_ns: npt.NDArray[np.int64]  # CLOCK_MONOTONIC: compares with time.monotonic_ns()
    cpu: npt.NDArray[np.uint16]
    pid: npt.NDArray[np.int32]  # 0: idle; -1: a task that is ending
    tid: npt.NDArray[np.int32]
    cgroup: npt.NDArray[np.uint64]  # its id in the hierarchy of perf_event (v2 if it is there); 0: not known
    ip: npt.NDArray[np.uint64]  # the instruction pointer; the leaf of its stack, if that could be walked
    period: npt.NDArray[np.int64]  # what was counted since the sample before: cycles, or nanoseconds of the cpu-clock
    weight_ns: npt.NDArray[np.int64]  # time that the sample stands for
    stack: npt.NDArray[np.int64]  # for Sampler.stacks()
    lost: int  # records for which the rings had no space
    records: list[Record]
    damage: list[Unparsable]  # rings that were not understood to their end


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gaps:
    """Gaps between two samples of a core, as columns of one length; `start_ns` is the time of the first."""

    cpu: npt.NDArray[np.uint16]
    start_ns: npt.NDArray[np.int64]
    length_ns: npt.NDArray[np.int64]


class Sampler(Closing):
    """All cores, from now until closed. Not for use by two threads at once."""

    def __init__(self, *, hz: int = 49, user: bool = True, pages: int = 64) -> None:
        if hz < 1 or pages < 1 or pages & (pages - 1):
            raise UserError(f"cannot sample at {hz} Hz with {pages} pages: at least 1 Hz, and pages a power of two")
        self._pages = pages
        self._rings: dict[int, Ring] = {}
        self._left: list[tuple[bytes, int]] = []  # of closed rings: what was unread, and how much was lost
        self._table = StackTable()
        self._lock = threading.Lock()
        self._lock.acquire()
        cpus = _online()
        self._event = richest(cpus, _allowed(hz), user)
        with ExitStack() as undo:
            undo.callback(self.close)
            self._open(cpus)
            undo.pop_all()
        self.blind: tuple[str, ...] = blindness(self._event, hz)
        self.event = self._event.name  # what makes the samples: "cycles" or "cpu-clock"
        self._weights = Weights(self._event.name, self._event.hz)
        self.hz = self._event.hz  # samples a second and core; less than asked for if the kernel allows no more
        self.reports_code = self._event.ksymbol  # whether BPF programs are reported as they are loaded (Ksymbol)

    @property
    def cpus(self) -> tuple[int, ...]:
        return tuple(self._rings)

    @property
    def oldest(self) -> int:
        """The oldest stack still known: all that the last read spoke of are from here on."""
        return self._table.first

    def read(self) -> RawSamples:
        """All samples and records since the last call."""
        rings = [(ring, ring.head) for ring in self._rings.values()]
        self._order_memory()
        parts, damage = [], []
        for ring, head in rings:
            try:
                parts.append(ring.copy(head))
            except Unparsable as error:
                damage.append(error)
                parts.append(b"")
        self._order_memory()
        for ring, head in rings:
            ring.release(head)
        left, self._left = self._left, []
        parsed = parse([*parts, *(part for part, _ in left)], cgroup=self._event.cgroup)
        told = zip(rings, parts, parsed.lost, strict=False)
        lost = sum(ring.count_lost(many, len(part)) for (ring, _), part, many in told)
        lost += sum(max(many, last) for (_, many), last in zip(left, parsed.lost[len(parts) :], strict=True))
        return RawSamples(
            time_ns=parsed.time_ns,
            cpu=parsed.cpu,
            pid=parsed.pid,
            tid=parsed.tid,
            cgroup=parsed.cgroup,
            ip=parsed.ip,
            period=parsed.period,
            weight_ns=self._weights.of(parsed.time_ns, parsed.cpu, parsed.period, self._shares()),
            stack=self._table.numbers(parsed.chains),
            lost=lost,
            records=parsed.records,
            damage=damage + parsed.damage,
        )

    def _shares(self) -> dict[int, float]:
        return {cpu: ring.share() for cpu, ring in self._rings.items()}

    def stacks(self, from_index: int) -> list[RawStack]:
        """The stacks from that number on: item i has the number from_index + i.

        A reader asks after each read for those it has not seen. Older ones are forgotten at some point (see
        StackTable); asking for these is an IndexError.
        """
        return self._table.stacks(from_index)

    def refresh(self) -> None:
        """Begin to sample cores that came online, and close those gone offline; their unread records are kept.

        A core that went offline and came back in between has lost its event, as the kernel detached it: the second call
        notices and opens it again.
        """
        online = _online()
        gone = [cpu for cpu, ring in self._rings.items() if cpu not in online or not ring.counts()]
        for cpu in gone:
            ring = self._rings.pop(cpu)
            head = ring.head
            self._order_memory()
            with suppress(Unparsable):
                part = ring.copy(head)
                # Lost records are read as if the ring were full: this is the last chance.
                self._left.append((part, ring.count_lost(0, ring.size)))
            ring.close()
        self._open([cpu for cpu in online if cpu not in self._rings])

    def close(self) -> None:
        while self._rings:
            self._rings.popitem()[1].close()

    def _open(self, cpus: list[int]) -> None:
        for cpu in cpus:
            try:
                self._rings[cpu] = Ring(self._event, cpu, self._pages)
            except OSError as error:
                if error.errno != errno.ENODEV:  # went offline just now
                    raise refusal(error) from None

    # The head must be read before the data, and the data before the tail is moved. Python has no memory fence, but
    # releasing a lock and taking it again acts as one.
    def _order_memory(self) -> None:
        self._lock.release()
        self._lock.acquire()


def gaps(
    time_ns: npt.NDArray[np.int64],
    cpu: npt.NDArray[np.uint16],
    hz: float,
    *,
    records: Iterable[Record] = (),
    periods: float = PERIODS,
) -> Gaps:
    """When a core could not be sampled by its cpu-clock: periods with interrupts off, seen as missing ticks.

    The clock's timer keeps to a fixed grid. If it is delayed it ticks late, off the grid, as soon as interrupts are on
    again: of a gap, all but one period at most was spent with interrupts off, and the sample at its end shows who did
    it. If samples are missing while the timer ticks (lost ones, or those of an idle core, which some kernels do not
    report), the next one is on the grid: that is no gap. So a true gap that happens to end on the grid is missed: one
    in a hundred at 49 Hz, one in ten at 999 Hz. Gaps in which the kernel throttled the event, as `records` show, are
    left out: the kernel does so on cores that stay idle for long, and then starts a new grid.

    False alarms: a virtual core that its host did not run looks the same; compare with steal in /proc/stat. With cycles
    a gap may just be idle time: do not call this (nor is it needed: an NMI also samples code with interrupts off).
    Samples of two reads must be joined first, or gaps across them are not seen.
    """
    order = np.lexsort((time_ns, cpu))
    time_ns, cpu = time_ns[order], cpu[order]
    length, period = np.diff(time_ns), 1e9 // hz  # as the kernel rounds it
    late = np.mod(length, period)
    on_grid = np.minimum(late, period - late) < min(period * _ON_GRID, _ON_GRID_NS)
    found = np.flatnonzero((np.diff(cpu) == 0) & (length > periods * period) & ~on_grid)
    cpu, start, length = cpu[found], time_ns[found], length[found]
    throttled = np.zeros(len(found), np.bool_)
    for record in records:
        if isinstance(record, Throttle):
            throttled |= (cpu == record.cpu) & (start <= record.time_ns) & (record.time_ns <= start + length)
    return Gaps(cpu=cpu[~throttled], start_ns=start[~throttled], length_ns=length[~throttled])


def _allowed(hz: int) -> int:
    try:
        with open(_MAX_RATE) as file:
            return max(1, min(hz, int(file.read())))
    except (OSError, ValueError):  # then the kernel itself refuses a rate that is too high
        return hz


# 0-1,4
def _online() -> list[int]:
    try:
        with open(ONLINE) as file:
            text = file.read()
    except OSError as error:
        raise Unreadable(ONLINE, (error.strerror or "").lower()) from None
    return [cpu for cpu in cores(text, ONLINE) if cpu < _MOST_CORES]
