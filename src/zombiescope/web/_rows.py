"""Samples as the page gets them: one row each, or, if there are too many, one for all equal ones within a cell."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from zombiescope.core.samples import Ints, Mask, Samples
from zombiescope.profile.heatmap import spells
from zombiescope.web._axis import SECOND, Axis

MOST = 10_000_000  # rows: 140 MB in a browser, gone through in 60 ms. 12 h of four full cores at 49 Hz are 8.5 million
COARSER = (1, 5, 50, 250, 3000)  # cells: of 20 ms they make 20 ms, 0.1 s, 1 s, 5 s, 1 min


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Sorted by time."""

    axis: Axis  # its tick is theirs
    at: Ints  # ticks
    cpu: npt.NDArray[Any]
    who: npt.NDArray[Any]
    leaf: Ints
    weight: Ints
    long: Ints  # indices of rows that stand for more than a heatmap cell: periods without interrupts
    notes: tuple[str, ...] = ()


def rows_of(capture: Samples, leaf: Ints, axis: Axis, most: int = MOST) -> Rows:
    """As fine as possible with no more than `most` rows."""
    timed = capture.clock != "none"
    since = capture.at - axis.origin if timed else np.zeros(len(capture), np.int64)
    is_long = spells(capture, axis.cell) & (capture.unit == "nanoseconds") & timed
    if len(capture) > most:
        return _merged(capture, leaf, axis, since, is_long, most)
    return Rows(axis, since // axis.tick, capture.cpu, capture.who, leaf, capture.weight, np.flatnonzero(is_long))


def _merged(capture: Samples, leaf: Ints, axis: Axis, since: Ints, is_long: Mask, most: int) -> Rows:
    """Sort those with equal core, thread and leaf together, by time; then every cell length is one pass."""
    # Less than 2^63 by far: thousands of cores, a million processes, millions of nodes.
    alike = ((capture.cpu.astype(np.int64) + 1) * len(capture.whos) + capture.who) * (int(leaf.max()) + 1) + leaf
    # Each long sample stays alone: it fills other cells than its own.
    alike[is_long] = int(alike.max()) + 1 + np.arange(np.count_nonzero(is_long))
    order = np.argsort(alike, kind="stable")
    apart = np.diff(alike[order], prepend=-1) != 0
    for cells in COARSER:
        tick = cells * axis.cell
        at = since[order] // tick
        first = np.flatnonzero(apart | (np.diff(at, prepend=-1) != 0))
        if len(first) <= most:
            break
    by_time = np.argsort(at[first], kind="stable")
    rows = order[first][by_time]
    note = f"{len(capture):,} samples are shown as {len(rows):,} rows: equal ones within {tick / SECOND:g} s are merged"
    return Rows(
        axis.coarser(tick),
        at[first][by_time],
        capture.cpu[rows],
        capture.who[rows],
        leaf[rows],
        np.add.reduceat(capture.weight[order], first)[by_time],
        np.flatnonzero(is_long[rows]),
        (note + ("; use --from and --to to see a part in full" if tick > axis.cell else ""),),
    )
