"""When a core could not be sampled by its cpu-clock: periods with interrupts off, seen as missing ticks.

Kernel: the cpu-clock is a timer, which waits for interrupts. It ticks on idle cores too, until the kernel throttles it:
    it allows a number of samples (max_sample_rate / HZ) from one scheduler tick to the next, and a core that is idle
    for long has no such ticks. The next tick resumes it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zombiescope.kernel.perf_changes import Record, Throttle

# A core that is late by a whole period missed a tick; less is normal timer jitter, above all on virtual machines.
PERIODS = 2.0
# Measured on an idle and on a busy virtual core: 98 of 100 ticks within 50 µs of the grid, all but one of 500 at 49 Hz
# within 200 µs. Smaller at high rates, where that would be a large part of a period.
_ON_GRID_NS, _ON_GRID = 100_000, 0.05


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Gaps:
    """Gaps between two samples of a core, as columns of one length; `start_ns` is the time of the first."""

    cpu: npt.NDArray[np.uint16]
    start_ns: npt.NDArray[np.int64]
    length_ns: npt.NDArray[np.int64]


def gaps(
    time_ns: npt.NDArray[np.int64],
    cpu: npt.NDArray[np.uint16],
    hz: float,
    *,
    records: Iterable[Record] = (),
    periods: float = PERIODS,
) -> Gaps:
    """Of samples in any order; `records` of the same time.

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
