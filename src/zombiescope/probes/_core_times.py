"""Histograms of core times as readings: the worst ones by core, the others of each kind together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence

from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.kernel.core_times import CoreTimes, Times
from zombiescope.kernel.stopwatch import LONG_BIN
from zombiescope.kernel.text import cores

POSSIBLE = "/sys/devices/system/cpu/possible"
OTHERS = "others"
LONG_US = 1 << LONG_BIN  # from here on each one is counted
RESTS = "there are so many that they are timed only in a part of the time"
Name = Callable[[str, str], str]  # a core ("3", or OTHERS) and a kind into a subject


def allowed(host: Host, source: str) -> None:
    """Programs can be attached to a live kernel only, and not where the user does not want it."""
    if not host.live:
        raise Unreadable(source, "timed while it happens, on a live machine")
    if not host.bpf:
        raise Unreadable(source, "switched off by --no-bpf")


def possible_cores(host: Host) -> list[int]:
    return sorted(cores(host.read(POSSIBLE), POSSIBLE))


def sampled(
    times: CoreTimes, at: float, source: str, whats: dict[str, str], name: Name, most: int
) -> Iterator[Reading | Blind]:
    """One round: a reading for each histogram; `whats` names them by table."""
    found = times.read()
    if found is None:
        yield from (Blind(what=it, source=source, why=RESTS, subject="node") for it in whats.values())
        return
    for table, what in whats.items():
        rows = [it for it in found.times if it.table == table]
        for subject, row in bounded(rows, name, most):
            text = histogram(row.counts, row.total, found.seconds, found.every)
            yield Reading(what=what, subject=subject, value=row.worst, at=at, source=source, text=text)


def bounded(rows: list[Times], name: Name, most: int) -> Iterator[tuple[str, Times]]:
    """The worst `most` by core; what is left, of all its cores together."""
    rows.sort(key=lambda it: it.worst, reverse=True)
    yield from ((name(str(it.core), it.kind), it) for it in rows[:most])
    for kind in sorted({it.kind for it in rows[most:]}):
        yield name(OTHERS, kind), _together([it for it in rows[most:] if it.kind == kind])


def _together(rows: Iterable[Times]) -> Times:
    first, *others = rows
    counts = first.counts
    for it in others:
        counts = tuple(map(sum, zip(counts, it.counts, strict=True)))
    worst, total = max(it.worst for it in (first, *others)), sum(it.total for it in (first, *others))
    return Times(first.table, first.core, first.kind, counts, worst, total)


# 2.00 s; 0.391 s in all; one in 16 below 16384; from µs: 1:149920 16:48 16384:41
def histogram(counts: Sequence[int], total: float, seconds: float, every: int = 1) -> str:
    """`counts`: how many took from 2**i to 2**(i+1) microseconds; shorter than LONG_US, one in `every` was timed."""
    bins = " ".join(f"{1 << place}:{many}" for place, many in enumerate(counts) if many)
    return f"{seconds:.2f} s; {total:.6f} s in all; one in {every} below {LONG_US}; from µs: {bins}"
