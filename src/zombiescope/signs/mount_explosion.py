"""The host has thousands of mounts, and the whole table is read again whenever one comes or goes.

Why it hurts: systemd, kubelet and everything else that follows mounts read all of them at every change; starting a pod
    makes a dozen changes, so the work grows with the square. Copying the table for each new container grows too.
False alarms: a node of 110 pods with seven mounts each has 800 and no trouble; a storage node may have thousands
    on purpose.
References: Documentation/admin-guide/sysctl/fs.rst (mount-max).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zombiescope.core import Finding, Reading, Span
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline
from zombiescope.derived.growth import reaches
from zombiescope.derived.sampled_processes import processes
from zombiescope.derived.waits import waited_anywhere
from zombiescope.knowledge.functions import shows

# Scale: grows with pods; below 125 of them MANY, what one read of the table costs.
NEEDS = ("mounts",)
OURS = 0.5  # seconds around our own reads: two reads of the longest table that is allowed take less
GROWN = 20  # more over a recording: a pod that starts makes a dozen
FOR_POD = 24  # mounts for each pod: twice what one with a dozen volumes has
MANY = 3_000  # four times a full node: one read of the table takes 6 ms of a core, for each program that follows mounts


def find(timeline: Timeline) -> Iterator[Finding]:
    spent, limit = timeline.series("mounts_read_cpu_seconds"), timeline.series("mounts_limit")
    alike = sorted(timeline.latest("mounts_alike"), key=lambda it: it.value, reverse=True)[:1]
    many = max(MANY, FOR_POD * len(timeline.subjects("pod_info", "pod")))
    for spell in timeline.series(NEEDS[0]).runs(above=many, lasting=0.0):
        yield Finding(
            subject="node",
            span=spell.span,
            says="; ".join(
                [
                    f"has {spell.latest.value:,.0f} mounts",
                    *(f"about {it.value:,.0f} of them {it.subject.removeprefix('family:')}" for it in alike),
                    *(
                        [f"one read of the table takes {spent.latest.value * 1e3:.1f} ms of a core"]
                        if len(spent)
                        else []
                    ),
                    *([f"the kernel allows {limit.latest.value:,.0f}"] if len(limit) else []),
                ]
            ),
            evidence=(spell.latest, *alike, *(it.latest for it in (spent, limit) if len(it))),
            harm=_harm(timeline, spell.span),
        )


def _harm(timeline: Timeline, span: Span) -> Harm:
    """Who reads the table, by sampled stacks, and when the kernel allows no more mounts."""
    harm = Harm(unknown=("burnt",))
    if timeline.looked("samples_total", 2):
        harm = Harm(parts=tuple(_readers(timeline, span)))
    limit = timeline.series("mounts_limit")
    if not len(limit):
        return replace(harm, unknown=(*harm.unknown, "soon"))
    called = f"the kernel's limit of {limit.latest.value:,.0f} mounts"
    return reaches(timeline, timeline.series(NEEDS[0]), limit.latest.value, least=GROWN, called=called).added_to(harm)


def _readers(timeline: Timeline, span: Span) -> Iterator[Part]:
    """Without the moments in which we read it ourselves."""
    reads = timeline.samples(wanted=lambda it: shows(it, "mount_table"))
    ours = timeline.looks(NEEDS[0]).at
    nearest = np.abs(reads.at_seconds[:, None] - ours[None, :]).min(axis=1, initial=np.inf)
    seconds = max(timeline.looks("samples_total").span.seconds, 1.0)
    for name, pid, own in processes(reads.only(nearest > OURS)):
        who, cores = f"process:{name}[{pid}]", own.seconds / seconds
        waited = waited_anywhere(timeline, span, spent=cores)
        yield Part(figure="burnt", who=who, amount=cores, span=span, contended=waited)


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    mounts = timeline.series(NEEDS[0])
    return (f"{mounts.latest.value:,.0f} mounts", (mounts.latest,)) if len(mounts) else ("", ())
