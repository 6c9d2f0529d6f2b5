"""A walk through cgroups runs in the kernel on one core to its end, so that core has no time for others."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, percent
from zombiescope.core.timeline import Timeline
from zombiescope.derived.core_work import sampled_on
from zombiescope.derived.sampled_processes import processes
from zombiescope.knowledge.functions import walks

WITHIN = 1.0  # seconds: the core is busy while the walk goes on
LEAST = 0.33  # of what that core did in that time, and more than any other process: less, and others fill it


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    there = sampled_on(effect, timeline)
    of_kernel = cause.subject.startswith("process:kworker (")
    mine, others = 0.0, 0.0
    walk = there.only(slice(0))
    for name, pid, samples in processes(there):
        if f"process:{name}[{pid}]" == cause.subject or (of_kernel and name.startswith("kworker/")):
            walk = samples.where(walks)
            mine += walk.seconds
        else:
            others = max(others, samples.seconds)
    core = effect.subject.replace(":", " ")
    if mine >= LEAST * there.seconds > 0 and mine >= others:
        yield Ground(
            kind="mechanism",
            says=f"seen in stacks: this walk is {percent(mine / there.seconds)} of what {core} did then",
            evidence=(walk.reading(effect.subject, "walk_sampled_seconds"), there.reading(effect.subject)),
        )
