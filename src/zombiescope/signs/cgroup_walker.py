"""A process, or the kernel itself, spends its time walking through cgroups and their statistics.

Why it hurts: kubelet, cadvisor and other agents read every cgroup's statistics every few seconds. Where a read visits
    each cgroup that the kernel keeps, dying ones included, it holds its core in the kernel for as long as that takes,
    in part with interrupts off.
False alarms: an agent that is set to read very often does this without any dying cgroup; so does a container
    runtime while it starts a hundred pods. Both are real costs; the finding says what the walk spends its time on.
References: Documentation/admin-guide/cgroup-v2.rst; kernel commits dd8657b6c1cb (in v5.8), 2d146aa3aa84 (in v5.13).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zombiescope.core import Finding, Reading, harmless, percent
from zombiescope.core.harm import Harm
from zombiescope.core.samples import Samples
from zombiescope.core.timeline import Timeline
from zombiescope.derived.sampled_processes import processes
from zombiescope.derived.sampled_work import length, longest, spells
from zombiescope.knowledge.functions import visits, walked_in, walks

# Scale: shares of one core: what a walk takes from others on its core is the same on any node.
NEEDS = ("samples_total", "kernel_symbols")
MUCH = 0.1  # of one core, over the whole recording: a healthy kubelet stays below 0.01 for all it does
LONG = 1.0  # seconds walked: in a short recording a few pods that start or stop already take a tenth of a core
BURST = 0.5  # seconds within one: half a core for a second delays whatever else that core serves
FEWEST = 10  # samples: fewer are chance
PAUSE = 20.0  # seconds: kubelet's housekeeping comes every 10 to 15 s and counts as one walk


def find(timeline: Timeline) -> Iterator[Finding]:
    for subject, samples in walkers(timeline):
        for work in spells(subject, samples, fewest=FEWEST, pause=PAUSE):
            spell, seconds, recorded = work.samples, work.seconds, length(timeline)
            if (seconds < LONG or seconds / recorded < MUCH) and work.busiest < BURST:
                continue
            visiting = spell.where(visits)
            core = np.bincount(spell.cpu, weights=spell.weight_seconds).argmax()
            yield Finding(
                subject=subject,
                span=work.span,
                says=(
                    f"walked cgroups for {seconds:.1f} s of {recorded:.0f} s ({percent(visiting.seconds / seconds)} "
                    f"of it visiting one after the other), mostly in {harmless(walked_in(spell.hottest()))} on "
                    f"cpu {core}, using up to {percent(work.busiest)} of a core"
                ),
                evidence=(
                    spell.reading(subject, "walk_sampled_seconds"),
                    *([visiting.reading(subject, "visit_sampled_seconds")] if len(visiting) else []),
                ),
                harm=Harm(parts=tuple(work.burnt(timeline))),
            )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    return longest(timeline, walkers(timeline), "walk_sampled_seconds", "cgroups")


def walkers(timeline: Timeline) -> list[tuple[str, Samples]]:
    """Who walks, by process; kernel workers by the function they ran, since any worker may run it."""
    samples = timeline.once(_walking)
    found: dict[str, list[Samples]] = {}
    for name, pid, own in processes(samples):
        worker = name.startswith("kworker/")
        subject = f"process:kworker ({walked_in(own.hottest())})" if worker else f"process:{name}[{pid}]"
        found.setdefault(subject, []).append(own)
    merged = [
        (subject, group[0] if len(group) == 1 else samples.only(np.isin(samples.pid, [it.pid[0] for it in group])))
        for subject, group in found.items()
    ]
    return sorted(merged, key=lambda one: -one[1].seconds)


def _walking(timeline: Timeline) -> Samples:
    return timeline.samples(wanted=walks)
