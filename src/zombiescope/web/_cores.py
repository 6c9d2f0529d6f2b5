"""What every core did, by mode, in cells of time: from the kernel's own counters, which are exact; samples are not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zombiescope.core.timeline import Floats, Timeline
from zombiescope.derived.cores import MODES
from zombiescope.web._axis import SECOND, Axis

FULL = 250  # stands for the whole of a cell
UNSEEN = 255
FINE, COARSE = SECOND // 4, SECOND
FINE_UNTIL = 3600 * SECOND  # a longer recording gets cells of a second
MOST = 64_000_000  # bytes: 96 cores for 12 hours are 21 million
GAP = 3.0  # seconds between two samples: after a longer gap what happened in between is unknown


@dataclass(frozen=True, slots=True, eq=False)
class Modes:
    """Shares of each cell, core by core, cell by cell, mode by mode; UNSEEN where nothing was sampled."""

    cell: int  # nanoseconds
    cells: int
    cpus: list[int]
    shares: npt.NDArray[np.uint8]
    nodes: list[int]  # the NUMA node of each core; empty if that of any is unknown


def modes(timeline: Timeline, axis: Axis) -> Modes | None:
    """None if no core was sampled twice."""
    looks = timeline.looks("cpu_idle_seconds_total")
    times = np.unique(looks.at[looks.values > 0]) if len(looks) else np.empty(0)
    cpus = [int(it.removeprefix("cpu:")) for it in timeline.subjects("cpu_idle_seconds_total", "cpu")]
    if len(times) < 2 or not cpus or not axis.length:
        return None
    cell = FINE if axis.length <= FINE_UNTIL else COARSE
    while axis.length // cell * len(cpus) * len(MODES) > MOST:
        cell *= 2
    cells = axis.length // cell
    edges = axis.edges(cell)
    after = np.clip(np.searchsorted(times, edges), 1, len(times) - 1)
    # Only the samples on both sides of every edge are needed; there may be ten a second.
    times = times[np.unique([after - 1, after])]
    shares = np.empty((len(cpus), cells, len(MODES)), np.uint8)
    for place, cpu in enumerate(cpus):
        for number, made_of in enumerate(MODES.values()):
            clocks = [_clock(timeline, f"cpu_{mode}_seconds_total", cpu, times, edges) for mode in made_of]
            share = np.diff(np.sum(clocks, axis=0)) / (cell / SECOND)
            shares[place, :, number] = np.clip(np.nan_to_num(share) * FULL, 0, FULL).round()
    shares[:, _unseen(times, edges)] = UNSEEN
    return Modes(cell, cells, cpus, shares, _nodes(timeline, cpus))


def _nodes(timeline: Timeline, cpus: list[int]) -> list[int]:
    told = [timeline.series("cpu_numa_node", f"cpu:{cpu}") for cpu in cpus]
    return [int(it.values[-1]) for it in told] if all(len(it) for it in told) else []


def _clock(timeline: Timeline, what: str, cpu: int, times: Floats, edges: Floats) -> Floats:
    """A counter at each edge, interpolated linearly between two samples."""
    counter = timeline.series(what, f"cpu:{cpu}")
    held = counter.sampled(times) if len(counter) else np.zeros(len(times))
    return np.interp(edges, times, held)


def _unseen(times: Floats, edges: Floats) -> npt.NDArray[np.bool_]:
    middles = (edges[1:] + edges[:-1]) / 2
    after = np.clip(np.searchsorted(times, middles), 1, len(times) - 1)
    outside = (middles < times[0]) | (middles > times[-1])
    found: npt.NDArray[np.bool_] = outside | (times[after] - times[after - 1] > GAP)
    return found
