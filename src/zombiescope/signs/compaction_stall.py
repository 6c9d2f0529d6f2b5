"""Programs wait while the kernel moves pages around to find large blocks of free memory (compaction).

Why it hurts: a fault that wants a huge page, or a driver that wants a large buffer, compacts memory itself: 100 ms
    and more in the kernel, though memory is free. Nothing is reclaimed, so no counter of reclaim shows it.
False alarms: kcompactd and khugepaged work in the background and nobody waits for them: only direct compaction
    counts, and only while tasks wait for memory.
References: mm/compaction.c; Documentation/admin-guide/mm/transhuge.rst (defrag); Documentation/accounting/psi.rst.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Reading, lasting, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline
from zombiescope.derived.kernel_log import lines_of, logged

STALLS, SCANNED = "vmstat_compact_stall_total", "vmstat_pgscan_direct_total"
WAITING = "pressure_memory_waiting_seconds_total"
# Scale: the waiting is the kernel's average over cores; OFTEN is for one thread that waits, as it would on any node.
NEEDS = (STALLS, WAITING)
OFTEN = 5.0  # stalls a second: at 20 ms and more each, a tenth of a thread's time
SHARE = 0.05  # of the time that tasks waited for memory: less delays nobody for long
RECLAIM = 50.0  # pages scanned for each stall: with more it is reclaim that they wait for
LASTS = 4.0  # seconds: a program that starts and maps huge pages takes less
BRIDGE = 3.0  # seconds: one better sample does not split it in two
SHOWN = 3  # lines of the log, as evidence


def find(timeline: Timeline) -> Iterator[Finding]:
    stalls, waiting, scanned = timeline.rate(STALLS), timeline.rate(WAITING), timeline.rate(SCANNED)
    for spell in stalls.runs(above=OFTEN, lasting=LASTS, bridging=BRIDGE):
        waited = waiting.between(spell.span)
        pages = scanned.between(spell.span).mean() if len(scanned) else 0.0
        if not len(waited) or waited.mean() < SHARE or pages > RECLAIM * spell.mean():
            continue
        lines = [it for it in lines_of(timeline, "page_allocation_failure") if int(it.message.fields["order"][:3]) > 0]
        stalled = spell.figure("compact_stalls_per_second"), waited.figure("pressure_memory_waiting_ratio")
        failed = logged(lines, "failed allocations of large blocks")
        yield Finding(
            subject="node",
            span=spell.span,
            says=(
                f"compacted memory for {spell.mean():,.0f} requests a second for {lasting(spell.span.seconds)}; tasks "
                f"waited for memory {percent(waited.mean())} of that time, and next to nothing was reclaimed{failed}"
            ),
            evidence=(*stalled, *(line.reading for line in lines[:SHOWN])),
            harm=Harm(parts=(Part(figure="waited", who="node", amount=waited.mean(), span=spell.span),)),
        )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    stalls = timeline.rate(STALLS)
    if not len(stalls):
        return "", ()
    return f"{stalls.mean():.2f} stalls a second", (stalls.figure("compact_stalls_per_second"),)
