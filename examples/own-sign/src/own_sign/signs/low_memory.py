"""Nearly all of the node's memory is in use, and little of it could be given back.

Why it hurts: the next program that asks for memory has to free some first, and waits. Soon one is OOM-killed.
False alarms: a node whose one program is meant to hold nearly everything (a database, hugepages set aside).
References: Documentation/filesystems/proc.rst, MemAvailable.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from zombiescope.core import Finding, Reading, Span, amount
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline

NEEDS = ("memory_available_bytes", "memory_total_bytes")
FULL = 0.97  # of all memory: kswapd begins at about 2 % free on large nodes, and then it is late


def find(timeline: Timeline) -> Iterator[Finding]:
    available, total = (timeline.series(what) for what in NEEDS)
    used = replace(available, values=1.0 - available.values / total.latest.value)
    for period in used.runs(above=FULL, lasting=0.0):
        left = available.between(period.span).latest
        yield Finding(
            subject="node",
            span=period.span,
            says=f"{amount(left.value)} of {amount(total.latest.value)} memory available",
            evidence=(left, total.latest),
            harm=_harm(timeline, period.span),
        )


def _harm(timeline: Timeline, span: Span) -> Harm:
    """Who waits for memory because of it: cores' worth of time; unknown where the kernel does not count pressure."""
    waiting = timeline.rate("pressure_memory_waiting_seconds_total").between(span)
    if not len(waiting):
        return Harm(unknown=("waited",))
    return Harm(parts=(Part(figure="waited", who="node", amount=waiting.mean(), span=span),))


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    available, total = (timeline.series(what).latest for what in NEEDS)
    return f"{amount(available.value)} of {amount(total.value)} memory available", (available, total)
