"""Curves under the time axis: those that a sign or a probe offers, that the recording has, and that moved.

A probe lists them in CURVES: what the curve is called, its unit, the series, and how many subjects become one curve
("most": the highest rate of a counter, "all": the sum of rates, "longest": the highest of what was timed, which is no
counter). A sign works them out in `curves(timeline)`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from zombiescope.core.timeline import Floats, Series, Timeline
from zombiescope.derived.histograms import began
from zombiescope.members.rooms import Broken, guarded, healthy
from zombiescope.web._axis import SECOND, Axis

MOST_POINTS = 90_000  # a day of seconds; a screen has some thousand columns
MOST_SUBJECTS = 200  # whose curves are put together: the first of a node with thousands of cgroups


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
    for sign in healthy("signs").values():
        worked_out = guarded(lambda sign=sign: list(sign.curves(timeline))) if hasattr(sign, "curves") else []  # type: ignore[misc]
        for name, unit, series in [] if isinstance(worked_out, Broken) else worked_out:
            yield Curve(name, unit, series.subject, _peaks(series, edges))
    offered = [curve for probe in healthy("probes").values() for curve in getattr(probe, "CURVES", ())]
    for name, unit, what, how in offered:
        subjects = timeline.subjects(what)[:MOST_SUBJECTS]
        if how == "longest":
            drawn = [_timed(timeline.series(what, subject), edges) for subject in subjects]
        else:
            drawn = [_peaks(timeline.rate(what, subject), edges) for subject in subjects]
        if not drawn or not np.nanmax(np.nan_to_num(np.array(drawn)), initial=0.0) > 0:
            continue  # a flat line at zero says nothing
        together = np.array(drawn)
        unknown = np.isnan(together).all(axis=0)
        known = np.nan_to_num(together)
        values = known.sum(axis=0) if how == "all" else known.max(axis=0)
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


def _timed(series: Series, edges: Floats) -> Floats:
    """The longest of the samples that reach into each cell: nothing is known of the time between two samples."""
    values = np.full(len(edges) - 1, np.nan)
    first = np.searchsorted(edges, began(series), side="right") - 1
    last = np.searchsorted(edges, series.at, side="left")
    for start, end, value in zip(np.maximum(first, 0), last, series.values, strict=True):
        np.fmax(values[start:end], value, out=values[start:end])
    return values
