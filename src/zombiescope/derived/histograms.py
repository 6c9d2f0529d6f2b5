"""Histograms of times that eBPF took, sample by sample, put together over a span."""

from __future__ import annotations

import re
from dataclasses import dataclass

from zombiescope.core import Reading
from zombiescope.core.model import Span
from zombiescope.core.timeline import Timeline

LONG_US = 16384  # times from here on are all counted; shorter ones are sampled
LONG_SAYS = f"{LONG_US / 1e3:.0f} ms"
_TEXT = re.compile(r"(?P<seconds>\d+\.\d+) s; (?P<total>\d+\.\d+) s in all; .*from µs: (?P<bins>[\d: ]*)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Times:
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
