"""Curves under the time axis: those of a fixed short list that the recording has and that moved."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from zombiescope.cgroups.census import count
from zombiescope.core.timeline import Floats, Series, Timeline
from zombiescope.web._axis import SECOND, Axis

MOST_POINTS = 90_000  # a day of seconds; a screen has some thousand columns
MOST_SUBJECTS = 200  # whose curves are put together: the first of a node with thousands of cgroups

# What it is called, its unit, the reading, and how those of many subjects become one curve.
_RATES = (
    ("softirq threads waiting", "share", "thread_run_delay_seconds_total", "most"),
    ("CPU pressure", "share", "pressure_cpu_waiting_seconds_total", "most"),
    ("memory pressure", "share", "pressure_memory_waiting_seconds_total", "most"),
    ("I/O pressure", "share", "pressure_io_waiting_seconds_total", "most"),
    ("CPU throttling", "share", "cgroup_throttled_seconds_total", "all"),
    ("direct reclaim", "pages/s", "vmstat_pgscan_direct_total", "most"),
    ("NAPI out of budget", "per s", "softnet_squeezed_total", "all"),
    ("unit restarts", "per s", "unit_restarts_total", "all"),
)


@dataclass(frozen=True, slots=True, eq=False)
class Curve:
    """One value a cell, the highest within it; NaN where nothing was known."""

    name: str
    unit: str
    of: str  # whose it is
    values: Floats


def curves(timeline: Timeline, axis: Axis) -> tuple[int, list[Curve]]:
    """The length of a cell in nanoseconds, and the curves."""
    cell = SECOND
    while axis.length // cell > MOST_POINTS:
        cell *= 2
    edges = axis.edges(cell)
    return cell, [curve for curve in _all(timeline, edges) if np.count_nonzero(np.isfinite(curve.values)) > 1]


def _all(timeline: Timeline, edges: Floats) -> Iterator[Curve]:
    for census in count(timeline)[:1]:
        yield Curve("dead cgroups", "", census.subject, _peaks(census.dying, edges))
    for name, unit, what, how in _RATES:
        subjects = timeline.subjects(what)[:MOST_SUBJECTS]
        drawn = [_peaks(timeline.rate(what, subject), edges) for subject in subjects]
        if not drawn or not np.nanmax(np.nan_to_num(np.array(drawn)), initial=0.0) > 0:
            continue  # a flat line at nought says nothing
        together = np.array(drawn)
        unknown = np.isnan(together).all(axis=0)
        known = np.nan_to_num(together)
        values = known.max(axis=0) if how == "most" else known.sum(axis=0)
        of = subjects[0] if len(subjects) == 1 else f"{how} of {len(subjects)}"
        yield Curve(name, unit, of, np.where(unknown, np.nan, values))


def _peaks(series: Series, edges: Floats) -> Floats:
    """The value that held when each cell began, or a higher one within it: a short peak is never lost."""
    values = series.sampled(edges[:-1])
    if len(series):
        place = np.searchsorted(edges, series.at, side="right") - 1
        inside = (place >= 0) & (place < len(values))
        np.fmax.at(values, place[inside], series.values[inside])
    return values
