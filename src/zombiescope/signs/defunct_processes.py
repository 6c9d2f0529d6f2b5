"""A parent does not reap its zombie processes: they stay in the process table, defunct.

Why it hurts: each keeps a pid and counts against its cgroup's limit of pids; when these are used up no process can
    start, the parent's own restart included. The cause is a supervisor that does not call wait(2): the first process
    of a container that was never made to reap, or a thread that hangs where it should wait.
False alarms: a child that has ended is a zombie for a moment until its parent reaps it, so only those that were defunct
    in two samples in a row count, and a few of them are a small bug that harms nobody.
References: wait(2), NOTES; `ps -eo state,ppid,pid,comm | grep ^Z`.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Reading, harmless
from zombiescope.core.harm import Harm
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.cores import cores
from zombiescope.derived.growth import reaches

# Scale: FEW grows with cores, as pools do; SCARCE is a share of pid_max, which grows with cores too.
NEEDS = ("defunct_children",)
FEW = 20  # of one parent, or one a core: a pool that reaps slowly has one for each of its workers
GROWN = 10  # more over a recording: fewer is a pool that reaps late
SCARCE = 0.5  # of all pids: the rest is used up within hours or minutes


def find(timeline: Timeline) -> Iterator[Finding]:
    for subject in timeline.subjects(NEEDS[0], "process"):
        left = timeline.series(NEEDS[0], subject)
        for spell in left.runs(above=max(FEW, len(cores(timeline))), lasting=0.0):
            latest = spell.latest
            limit = timeline.series("pid_limit")
            pids = f" of {limit.latest.value:,.0f} pids" if len(limit) else ""
            scarce = "; soon no process can start" if pids and latest.value >= SCARCE * limit.latest.value else ""
            grown = latest.value - spell.first.value
            more = f", {grown:,.0f} more in {spell.span.seconds:.0f} s" if grown > 0 else ""
            yield Finding(
                subject=subject,
                span=spell.span,
                says=(
                    f"has {latest.value:,.0f} zombie processes not reaped{more}; each holds one{pids or ' pid'}"
                    f"{scarce} ({harmless(latest.text)})"
                ),
                evidence=(latest, *([limit.latest] if len(limit) else []), *timeline.latest("defunct_processes")),
                harm=_harm(timeline, left, scarce=bool(scarce)),
            )


def _harm(timeline: Timeline, left: Series, *, scarce: bool) -> Harm:
    """When no pid is left. Where most are used up already, whether a fork was refused is not counted anywhere."""
    harm, limit = Harm(unknown=("broken",) if scarce else ()), timeline.series("pid_limit")
    if not len(limit):
        return Harm(unknown=("soon", *harm.unknown))
    return reaches(timeline, left, limit.latest.value, least=GROWN, called="no pid is left").added_to(harm)


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """How many zombie processes the node has now, where no parent leaves many."""
    defunct = timeline.latest("defunct_processes")
    return (f"{defunct[0].value:,.0f} zombie processes on the node" if defunct else ""), tuple(defunct)
