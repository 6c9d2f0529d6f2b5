"""Busy time in cells of time, for all cores or for each: needs no function names."""

from __future__ import annotations

import numpy as np

from zombiescope.core.samples import Ints, Mask, Samples
from zombiescope.naming.ranges import distinct
from zombiescope.profile.chosen import EVERYTHING, Chosen

SECOND = 1_000_000_000
MOST_CELLS = 50_000_000  # 12 hours of 20 ms are 2.2 million; 96 cores of them at 1 s are 4.1 million


def heatmap(
    capture: Samples, cell: int, chosen: Chosen = EVERYTHING, *, start: int | None = None, end: int | None = None
) -> Ints:
    """Busy time in each cell of `cell` nanoseconds, from `start` to `end`; by default of the whole capture."""
    first, count = _grid(capture, cell, start, end)
    return _filled(capture, chosen.rows(capture), first, cell, count)


def heatmap_by_core(
    capture: Samples, cell: int, chosen: Chosen = EVERYTHING, *, start: int | None = None, end: int | None = None
) -> tuple[Ints, Ints]:
    """The cores that were seen, and a row of cells for each of them."""
    first, count = _grid(capture, cell, start, end)
    rows = chosen.rows(capture)
    cores = distinct(capture.cpu[rows])
    if count * len(cores) > MOST_CELLS:
        raise ValueError(f"{count:,} cells on {len(cores):,} cores are too many")
    cells = [_filled(capture, rows[capture.cpu[rows] == core], first, cell, count) for core in cores.tolist()]
    return cores.astype(np.int64), np.array(cells, np.int64).reshape(len(cores), count)


def spells(capture: Samples, cell: int) -> Mask:
    """Samples that cover more than a cell and more than their own period: those after a gap in sampling."""
    # At 49 Hz every sample covers 20.4 ms; that is no reason to spread each over two cells of 20 ms.
    period = 1.5 * SECOND / capture.hz if capture.hz else 0.0
    found: Mask = capture.weight > max(cell, period)
    return found


def _grid(capture: Samples, cell: int, start: int | None, end: int | None) -> tuple[int, int]:
    first = capture.start if start is None else start
    last = capture.end if end is None else end
    count = max(-(-(last - first) // cell), 0)
    if count > MOST_CELLS:
        raise ValueError(f"{count:,} cells are too many")
    return first, count


def _filled(capture: Samples, rows: Ints, first: int, cell: int, count: int) -> Ints:
    at, weight = capture.at[rows], capture.weight[rows]
    if capture.unit == "nanoseconds":
        # A sample at the end of a period with interrupts off covers all of that period: it belongs to the cells before.
        long = spells(capture, cell)[rows]
        if int((weight[long] // cell).sum()) <= MOST_CELLS:  # more is no time that anything took
            at, weight = _spread(at[long], weight[long], at[~long], weight[~long], cell)
    place = (at - first) // cell
    inside = (place >= 0) & (place < count)
    found: Ints = np.bincount(place[inside], weight[inside], count).astype(np.int64)
    return found


def _spread(at: Ints, weight: Ints, rest_at: Ints, rest_weight: Ints, cell: int) -> tuple[Ints, Ints]:
    """Split long samples into pieces of a cell's length, each at its middle; the last ends at the sample's time."""
    pieces = -(-weight // cell)
    back = np.arange(pieces.sum()) - np.repeat(np.cumsum(pieces) - pieces, pieces)  # 0, 1, 2 … for each
    times = np.repeat(at, pieces) - back * cell - cell // 2
    shares = np.minimum(cell, np.repeat(weight, pieces) - back * cell)
    return np.concatenate([rest_at, times]), np.concatenate([rest_weight, shares])
