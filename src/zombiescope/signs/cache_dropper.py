"""Somebody tells the kernel to drop its caches, and programs read their files from disk again.

Why it hurts: the page cache is what makes reads fast. A job that writes to drop_caches "to free memory" every few
    minutes makes every program start cold, and the disk gets all their reads at once.
False alarms: a benchmark drops caches on purpose, once. So it is only noted unless tasks waited for I/O afterwards more
    than before.
References: Documentation/admin-guide/sysctl/vm.rst (drop_caches); fs/drop_caches.c, which logs who did it.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zombiescope.core import Finding, Reading, Span, harmless, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline
from zombiescope.derived.kernel_log import Line, lines_of

DROPS, WAITING, READ_IN = "vmstat_drop_pagecache_total", "pressure_io_waiting_seconds_total", "vmstat_pgpgin_total"
# Scale: drops, and shares of time: the same on any node.
NEEDS = (DROPS,)
AFTER = 20.0  # seconds in which what was dropped is read again
WORSE = 0.05  # of the time that tasks waited for I/O, more than before: less delays nobody
SHOWN = 3  # lines of the log, as evidence
KILO = 1_024  # bytes: the unit of pgpgin


def find(timeline: Timeline) -> Iterator[Finding]:
    drops = timeline.series(DROPS)
    times = drops.at[1:][np.diff(drops.values) > 0]
    if not len(times):
        return
    span = Span(float(times[0]), min(float(times[-1]) + AFTER, timeline.span.end))
    count = int(drops.latest.value - drops.first.value)
    lines = [it for it in lines_of(timeline, "cache_drop") if it.reading.at >= timeline.span.start]
    who = _who(lines)
    worse, waited = _worse(timeline, span)
    cold = f"; tasks then waited for I/O {percent(waited)} of the time" if worse >= WORSE else ""
    yield Finding(
        subject=who or "node",
        span=span,
        says=f"dropped the page cache {'once' if count == 1 else f'{count:,} times'}{_read(timeline, span)}{cold}",
        evidence=(drops.first, drops.latest, *(it.reading for it in lines[:SHOWN])),
        culprit=who,
        harm=Harm(parts=(Part(figure="waited", who="node", amount=worse, span=span),)) if worse >= WORSE else Harm(),
    )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    drops = timeline.series(DROPS)
    return f"caches were not dropped meanwhile; since boot: {drops.latest.value:,.0f}", (drops.latest,)


def _who(lines: list[Line]) -> str:
    """The one that did it most often, as the kernel logged it; empty where the log does not say."""
    names = [it.message.fields["process"] for it in lines]
    if not names:
        return ""
    most = max(names, key=names.count)
    pid = next(it.message.fields["pid"] for it in reversed(lines) if it.message.fields["process"] == most)
    return f"process:{harmless(most)}[{pid}]"


def _worse(timeline: Timeline, span: Span) -> tuple[float, float]:
    """By how much more of the time tasks waited for I/O than before, and how much in all."""
    waiting = timeline.rate(WAITING)
    after = waiting.between(span)
    if not len(after):
        return 0.0, 0.0
    before = waiting.between(Span(timeline.span.start, span.start))
    usual = float(np.nan_to_num(before.mean())) if len(before) and before.span.seconds > 0 else 0.0
    return max(after.mean() - usual, 0.0), after.mean()


def _read(timeline: Timeline, span: Span) -> str:
    loaded = timeline.rate(READ_IN).between(span)
    return f", and {loaded.mean() * KILO / 1e6:,.1f} MB a second were read from disk" if len(loaded) else ""
