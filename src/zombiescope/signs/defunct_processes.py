"""A parent does not wait for its dead children: they stay in the process table, defunct.

Why it hurts: each keeps a pid, and counts against its cgroup's limit of pids; when these are used up nothing can be
    started, the parent's own restart included. It shows a supervisor that has lost count: a first process of a
    container that was never made to reap, a thread that hangs where it should wait.
False alarms: a child that ends and waits a moment for its parent is normal, so only those that were defunct at two
    looks in a row count, and a few of them are a small bug that starves nobody.
References: wait(2), NOTES; `ps -eo state,ppid,pid,comm | grep ^Z`.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Reading, harmless
from zombiescope.core.timeline import Timeline

NEEDS = ("defunct_children",)
FEW = 20  # of one parent: a pipeline or a pool that is slow to wait has one for each of a dozen workers
SCARCE = 0.5  # of all pids: from here on it is a matter of hours or minutes


def find(timeline: Timeline) -> Iterator[Finding]:
    for subject in timeline.subjects(NEEDS[0], "process"):
        left = timeline.series(NEEDS[0], subject)
        for spell in left.runs(above=FEW, lasting=0.0):
            latest = spell.latest
            limit = timeline.series("pid_limit")
            pids = f" of {limit.latest.value:,.0f} pids" if len(limit) else ""
            scarce = ", soon nothing can be started" if pids and latest.value >= SCARCE * limit.latest.value else ""
            grown = latest.value - spell.first.value
            more = f", {grown:,.0f} more in {spell.span.seconds:.0f} s" if grown > 0 else ""
            yield Finding(
                subject=subject,
                span=spell.span,
                says=(
                    f"does not wait for its dead children: {latest.value:,.0f} stay defunct{more}, each holds one{pids}"
                    f"{scarce} ({harmless(latest.text)})"
                ),
                evidence=(latest, *([limit.latest] if len(limit) else []), *timeline.latest("defunct_processes")),
            )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """How many are defunct on the node at this moment, where no parent leaves many."""
    defunct = timeline.latest("defunct_processes")
    return (f"{defunct[0].value:,.0f} defunct on the node" if defunct else ""), tuple(defunct)
