"""Who did the work that fills a node: the process whose stacks show most of it, and its cgroup."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zombiescope.core.model import Reading, Span
from zombiescope.core.samples import Samples, Wanted
from zombiescope.core.timeline import Timeline
from zombiescope.derived.sampled_processes import processes

MOSTLY = 0.5  # of that work: with less nobody in particular does it, however large the node


@dataclass(frozen=True, slots=True)
class Culprit:
    """A process, or a cgroup whose processes come and go; what it did is the evidence."""

    process: str  # process:sh[7]; empty where many did it
    cgroup: str  # cgroup:/docker/5f0c…; empty where unknown
    evidence: tuple[Reading, ...]

    @property
    def subject(self) -> str:
        return self.process or self.cgroup


def sampled_culprit(
    timeline: Timeline, span: Span, wanted: Wanted, *, cpu: int | None = None, among: Wanted | None = None
) -> Culprit | None:
    """Whose stacks show most of the work that is `wanted`; None where no stack shows it, or nobody did most of it.

    `among` says what all of that work is, where not all of it shows who caused it.
    """
    work = timeline.samples(span, cpu=cpu, wanted=wanted)
    if not len(work):
        return None
    all_of_it = timeline.samples(span, cpu=cpu, wanted=among).seconds if among else work.seconds
    name, pid, own = processes(work)[0]
    process = f"process:{name}[{pid}]" if own.seconds >= MOSTLY * all_of_it and pid > 0 else ""
    cgroup = _cgroup(own, own.seconds) if process else _cgroup(work, all_of_it)
    if not process and not cgroup:
        return None
    return Culprit(process, cgroup, ((own if process else work).reading(process or cgroup),))


def with_cgroup(timeline: Timeline, process: Reading, span: Span) -> Culprit:
    """A process that a counter names, with its cgroup where that was read."""
    group = timeline.series("process_in_cgroup", process.subject).between(span)
    return Culprit(process.subject, f"cgroup:{group.latest.text}" if len(group) else "", (process,))


def _cgroup(samples: Samples, all_of_it: float) -> str:
    """The cgroup that most of it was done in."""
    spent: dict[str, float] = {}
    by_who = np.bincount(samples.who, weights=samples.weight_seconds, minlength=len(samples.whos))
    for who, seconds in zip(samples.whos, by_who.tolist(), strict=True):
        if who.cgroup:
            spent[who.cgroup] = spent.get(who.cgroup, 0.0) + seconds
    most = max(spent, key=lambda path: spent[path], default="")
    return f"cgroup:{most}" if most and spent[most] >= MOSTLY * all_of_it else ""
