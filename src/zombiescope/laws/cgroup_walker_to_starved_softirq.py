"""The flush of cgroup statistics runs with interrupts off, so its core takes no packets while it lasts."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.gaps import core_gaps
from zombiescope.derived.sampled_processes import processes
from zombiescope.derived.softirq_times import seen_waiting
from zombiescope.knowledge.functions import visits

WITHIN = 2.0  # seconds: both are there while the walk goes on
MOSTLY = 0.5  # of the time with interrupts off that ends in such a stack: less, and something else keeps them off
LATE = 1.5  # sampling periods: a sample that stands for more comes at the end of a stretch with interrupts off


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    gaps = timeline.once(core_gaps, effect.subject).between(effect.span)
    visiting = timeline.samples(effect.span, cpu=int(effect.subject.removeprefix("cpu:")), wanted=visits)
    if not len(gaps) or not len(visiting):
        return
    late = visiting.only(visiting.weight_seconds * visiting.hz > LATE)
    of_kernel = cause.subject.startswith("process:kworker (")
    mine = [
        own
        for name, pid, own in processes(late)
        if f"process:{name}[{pid}]" == cause.subject or (of_kernel and name.startswith("kworker/"))
    ]
    off, all_off = sum(own.seconds for own in mine), float(gaps.values.sum())
    if mine and off >= MOSTLY * all_off > 0:
        yield Ground(
            kind="mechanism",
            says=f"seen in stacks: {off:.2f} s of {all_off:.2f} s with interrupts off end in this walk",
            evidence=(
                gaps.reading(int(gaps.values.argmax())),
                mine[0].reading(effect.subject, "visit_sampled_seconds"),
            ),
        )
        yield from seen_waiting(cause, effect, timeline)
