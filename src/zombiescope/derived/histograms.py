"""Histograms of times that eBPF took, sample by sample, put together over a span."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np

from zombiescope.core import Reading
from zombiescope.core.model import Span
from zombiescope.core.timeline import Floats, Series, Timeline

LONG_US = 16384  # times from here on are all counted; shorter ones are sampled
LONG_SAYS = f"{LONG_US / 1e3:.0f} ms"
_TEXT = re.compile(r"(?P<seconds>\d+\.\d+) s; (?P<total>\d+\.\d+) s in all; .*from µs: (?P<bins>[\d: ]*)", re.DOTALL)


class Times(NamedTuple):
    """What was timed of one subject, over all samples that reach into a span."""

    longest: Reading
    long: int  # how many took LONG_US or more
    total: float  # seconds of all together
    seconds: float  # that the samples cover


def times(timeline: Timeline, what: str, subject: str, span: Span) -> Times | None:
    """None where nothing was timed."""
    series = timeline.series(what, subject)
    longest, many, total, covered = None, 0, 0.0, 0.0
    for index in range(len(series)):
        text = _TEXT.match(series.texts.get(index, ""))
        if text is None or not (series.at[index] > span.start and series.at[index] - float(text["seconds"]) < span.end):
            continue
        if longest is None or series.values[index] > series.values[longest]:
            longest = index
        bins = [one.partition(":") for one in text["bins"].split()]
        many += sum(int(count) for least, _, count in bins if int(least) >= LONG_US)
        total += float(text["total"])
        covered += float(text["seconds"])
    return None if longest is None else Times(series.reading(longest), many, total, covered)


def began(series: Series) -> Floats:
    """When the samples of a series began: what it says, it says of the time from there to the sample's own."""
    texts = (_TEXT.match(series.texts.get(index, "")) for index in range(len(series)))
    lengths: Floats = np.array([float(it["seconds"]) if it else 0.0 for it in texts])
    return np.subtract(series.at, lengths)


def added(timeline: Timeline, what: str, subjects: Iterable[str], since: float) -> tuple[dict[int, int], float]:
    """How many took so many microseconds or more, up to twice as many, and the seconds of all together: of these
    subjects, in samples that ended after `since`."""
    counts, total = dict[int, int](), 0.0
    for series in (timeline.series(what, subject) for subject in subjects):
        for index in range(int(np.searchsorted(series.at, since, side="right")), len(series)):
            text = _TEXT.match(series.texts.get(index, ""))
            for least, _, count in (one.partition(":") for one in text["bins"].split()) if text else ():
                counts[int(least)] = counts.get(int(least), 0) + int(count)
            total += float(text["total"]) if text else 0.0
    return counts, total
