"""What is compared between windows of time; here series: counters by their rate, all else by its mean.

What is compared is chosen without knowing which window is before an event: choosing what is large there would always
find something.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from zombiescope.compare.quiet_time import Windows
from zombiescope.core.timeline import Floats, Series, Timeline
from zombiescope.members.rooms import healthy

MOST_SERIES = 1_500  # about 0.5 ms each for twelve hours of samples
KNOWN = 0.5  # of the quiet windows: a series that was seen in fewer is not compared
_NOT_HELD = {"core_gap_seconds", "cgroup_id"}  # events: their value does not hold until the next
_OURS = {"samples_total", "samples_lost_total", "budget_step", "own_process"}  # the recorder's: more work, more samples
_RECORDER = "recorder_"  # its own cost


@dataclass(frozen=True, slots=True, kw_only=True)
class Measure:
    """One thing that is compared."""

    kind: str  # function, process, core or series
    what: str  # seconds on a core, in itself ("own") or with all it called ("total"); or the series' name
    subject: str
    unit: str
    place: int = -1  # of a function, in the capture's


@dataclass(frozen=True, slots=True, eq=False)
class Measured:
    """A row for each window, a column for each measure. Unknown values are the quiet windows' median."""

    measures: list[Measure]
    values: Floats


def of_series(timeline: Timeline, windows: Windows) -> Measured:
    """Counters by their rate, all else by its mean; what never changes is left out."""
    moving = [one for one in _all(timeline) if len(one) > 1 and np.ptp(one.values) > 0]
    families = Counter(one.what for one in moving)
    moving.sort(key=lambda one: families[one.what])  # series of the node first, then those with few subjects
    measures, columns = [], []
    for one in moving[:MOST_SERIES]:
        values = _means(one, windows)
        cases, quiet = values[: len(windows.events)], values[len(windows.events) :]
        known = quiet[~np.isnan(quiet)]
        if np.isnan(cases).any() or len(known) < max(KNOWN * len(quiet), 1):
            continue
        counter = one.what.endswith("_total")
        measures.append(Measure(kind="series", what=one.what, subject=one.subject, unit="a second" if counter else ""))
        columns.append(np.where(np.isnan(values), np.median(known), values))
    return Measured(measures, np.stack(columns, axis=1) if columns else np.empty((len(windows), 0)))


def _all(timeline: Timeline) -> Iterator[Series]:
    happenings = {what for probe in healthy("probes").values() for what in getattr(probe, "EVENTS", ())}
    for what in timeline.whats():
        if what in happenings | _NOT_HELD | _OURS or what.startswith(_RECORDER):
            continue
        for subject in timeline.subjects(what):
            if not subject.startswith("probe:"):  # the cost of our own probes is not a figure of the node
                yield timeline.series(what, subject)


def _means(one: Series, windows: Windows) -> Floats:
    """A value holds until the next, so the sum between two times is the difference of the running sum."""
    starts, ends, values = windows.starts, windows.starts + windows.seconds, one.values
    # A rarely sampled series was last read a while before the end: its value may hold for one window more.
    known = (starts >= one.at[0]) & (ends <= one.until + windows.seconds)
    if one.what.endswith("_total"):
        rise = np.diff(values, prepend=values[0])
        # As in `Timeline.rate`: less than half is a counter reset, a small step back is jitter.
        rise = np.where(rise >= 0, rise, np.where(values < np.roll(values, 1) / 2, values, 0.0))
        risen = np.cumsum(rise)
        start, end = (np.maximum(np.searchsorted(one.at, it, side="right") - 1, 0) for it in (starts, ends))
        found = (risen[end] - risen[start]) / windows.seconds
    else:
        sums = np.append(0.0, np.cumsum(values[:-1] * np.diff(one.at)))
        start_sum, end_sum = (_running(one.at, values, sums, it) for it in (starts, ends))
        found = (end_sum - start_sum) / windows.seconds
    return np.where(known, found, np.nan)


def _running(at: Floats, values: Floats, sums: Floats, times: Floats) -> Floats:
    place = np.maximum(np.searchsorted(at, times, side="right") - 1, 0)
    return sums[place] + values[place] * (times - at[place])
