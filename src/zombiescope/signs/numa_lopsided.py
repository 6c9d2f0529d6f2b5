"""One NUMA node is out of memory while another has plenty, or pages are moved between nodes all the time.

Why it hurts: programs bound to the full node swap, reclaim or are OOM-killed though the machine has memory free. With
    zone_reclaim_mode the kernel reclaims rather than going to the other node; with automatic balancing every page is
    unmapped again and again to see who uses it, which stalls threads that must not wait.
False alarms: a node that is full of page cache, with nobody waiting for memory; memory without cores (CXL). So
    somebody must have waited for memory, or been refused on that node, at the same time.
References: Documentation/admin-guide/mm/numa_memory_policy.rst; Documentation/admin-guide/sysctl/vm.rst, kernel.rst.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Reading, harmless, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline
from zombiescope.derived.sampled_work import by_process
from zombiescope.knowledge.functions import shows

TOTAL, FREE, FOREIGN = "numa_memory_bytes", "numa_memory_free_bytes", "numa_foreign_total"
WAITING, MODE = "pressure_memory_waiting_seconds_total", "zone_reclaim_mode"
HINTS, MOVED = "vmstat_numa_hint_faults_total", "vmstat_numa_pages_migrated_total"
# Scale: shares of a node's memory, and pages a second of one node.
NEEDS = (TOTAL, WAITING)
FULL = 0.02  # of a node's memory is free: below its watermarks the kernel reclaims there
PLENTY = 0.15  # of another's: enough for what the full one lacks
FOREIGN_PAGES = 1_000.0  # pages a second that had to be taken elsewhere: 4 MB, with less nothing bound to it grows
SHARE = 0.05  # of the time that tasks waited for memory: less harms nobody
HINTED = 1_000.0  # faults a second: fewer take no millisecond of a core
BALANCING = 0.1  # of a core in all: a node of any size spends less once its memory is where it is used
NAMED, PAYERS = 3, 20  # programs that pay for it: in a sentence, and counted one by one; more pay less


def find(timeline: Timeline) -> Iterator[Finding]:
    yield from _balanced(timeline)
    nodes = timeline.subjects(TOTAL, "numa")
    free = {it: _share(timeline, it) for it in nodes}
    waiting = timeline.rate(WAITING)
    waited = waiting.mean() if len(waiting) else 0.0
    roomy = [it for it, share in free.items() if share >= PLENTY]
    for node in nodes if len(nodes) > 1 and roomy and waited >= SHARE else ():
        foreign = timeline.rate(FOREIGN, node)
        often = foreign.mean() if len(foreign) else 0.0
        mode = timeline.latest(MODE)
        reclaims = bool(mode) and mode[0].value > 0
        if free[node] <= FULL and (often >= FOREIGN_PAGES or reclaims):
            yield _finding(timeline, node, roomy[0], free, waited, often, mode if reclaims else [])


def _balanced(timeline: Timeline) -> Iterator[Finding]:
    """Automatic balancing: its faults are counted, and stacks show whose time it takes."""
    faults = timeline.rate(HINTS)
    often = faults.mean() if len(faults) else 0.0
    if not often >= HINTED:
        return
    work = timeline.samples(wanted=lambda frames: shows(frames, "numa_balancing"))
    span = faults.span
    cores = work.seconds / max(span.seconds, 1.0) if len(work) else 0.0
    if cores < BALANCING:
        return
    who, moved = by_process(work), timeline.rate(MOVED)
    pages = f", and {moved.mean():,.0f} pages a second were moved" if len(moved) else ""
    names = ", ".join(harmless(it[0].removeprefix("process:")) for it in who[:NAMED])
    yield Finding(
        subject="node",
        span=span,
        says=(
            f"balances memory between NUMA nodes: {often:,.0f} page faults a second only to see who uses what{pages}; "
            f"it took {cores:.2f} of a core, from {names}"
        ),
        evidence=(faults.figure("numa_hint_faults_per_second", often), work.reading("node", "numa_sampled_seconds")),
        harm=Harm(
            parts=tuple(
                Part(figure="waited", who=it, amount=own.seconds / max(span.seconds, 1.0), span=span)
                for it, own in who[:PAYERS]
            )
        ),
    )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    nodes = timeline.subjects(TOTAL, "numa")
    if len(nodes) < 2:
        return "one NUMA node", tuple(timeline.latest(TOTAL)[:1])
    shares = ", ".join(percent(_share(timeline, it)) for it in nodes[:8])
    return f"{len(nodes)} NUMA nodes, free: {shares}", tuple(timeline.latest(FREE)[:8])


def _share(timeline: Timeline, node: str) -> float:
    """The least of its memory that was free."""
    total, free = timeline.series(TOTAL, node), timeline.series(FREE, node)
    return float(free.values.min()) / total.latest.value if len(free) and len(total) and total.latest.value else 1.0


def _finding(
    timeline: Timeline, node: str, other: str, free: dict[str, float], waited: float, often: float, mode: list[Reading]
) -> Finding:
    said = [
        f"has {percent(free[node], 1)} of its memory free, {other.replace(':', ' node ')} has {percent(free[other])}",
        *([f"{often:,.0f} pages a second had to be taken elsewhere"] if often >= FOREIGN_PAGES else []),
        *(["zone_reclaim_mode makes the kernel reclaim rather than go there"] if mode else []),
        f"tasks waited for memory {percent(waited)} of the time",
    ]
    span = timeline.rate(WAITING).span
    foreign = timeline.series(FOREIGN, node)
    return Finding(
        subject=node,
        span=span,
        says="; ".join(said),
        evidence=(timeline.series(FREE, node).latest, timeline.series(FREE, other).latest, *mode, foreign.latest),
        harm=Harm(parts=(Part(figure="waited", who="node", amount=waited, span=span),)),
    )
