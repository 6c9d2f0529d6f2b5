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

from zombiescope.core import Finding, Reading, Span, harmless, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.samples import SECOND, Samples
from zombiescope.core.timeline import Timeline
from zombiescope.derived.sampled_processes import processes
from zombiescope.derived.waits import waited_for
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
        for spell in _spells(samples):
            seconds = spell.seconds
            length = max(timeline.looks(NEEDS[0]).span.seconds, 1.0)
            busiest = _busiest(spell)
            if len(spell) < FEWEST or ((seconds < LONG or seconds / length < MUCH) and busiest < BURST):
                continue
            visiting = spell.where(visits)
            core = np.bincount(spell.cpu, weights=spell.weight_seconds).argmax()
            yield Finding(
                subject=subject,
                span=Span(float(spell.at_seconds[0]), float(spell.at_seconds[-1])),
                says=(
                    f"walked cgroups for {seconds:.1f} s of {length:.0f} s ({percent(visiting.seconds / seconds)} "
                    f"of it visiting one after the other), mostly in {harmless(walked_in(spell.hottest()))} on "
                    f"cpu {core}, using up to {percent(busiest)} of a core"
                ),
                evidence=(
                    spell.reading(subject, "walk_sampled_seconds"),
                    *([visiting.reading(subject, "visit_sampled_seconds")] if len(visiting) else []),
                ),
                harm=Harm(parts=tuple(_burnt(timeline, subject, spell))),
            )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    taken = timeline.series(NEEDS[0]).latest
    most = next(iter(walkers(timeline)), None)
    if most is None:
        return f"none of {taken.value:,.0f} stack samples shows a walk through cgroups", (taken,)
    words = f"longest walk: {harmless(most[0].removeprefix('process:'))} for {most[1].seconds:.2f} s"
    return words, (most[1].reading(most[0], "walk_sampled_seconds"), taken)


def _burnt(timeline: Timeline, subject: str, spell: Samples) -> Iterator[Part]:
    """Its time on each core, and who else waited for that core, or for a share of the node's time."""
    span = Span(float(spell.at_seconds[0]), float(spell.at_seconds[-1]))
    for cpu in np.unique(spell.cpu).tolist():
        cores = spell.only(spell.cpu == cpu).seconds / max(span.seconds, 1.0)
        waited = waited_for(timeline, cpu, span, spent=cores, but=subject)
        yield Part(figure="burnt", who=subject, amount=cores, span=span, within=(f"cpu:{cpu}",), contended=waited)


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


def _spells(samples: Samples) -> Iterator[Samples]:
    """Walks with long pauses between them are separate."""
    edges = np.flatnonzero(np.diff(samples.at_seconds) > PAUSE) + 1
    for start, end in zip([0, *edges], [*edges, len(samples)], strict=True):
        yield samples.only(slice(start, end))


def _busiest(samples: Samples) -> float:
    """The most time sampled within one second."""
    until = np.searchsorted(samples.at, samples.at + SECOND)
    summed = np.concatenate([[0.0], np.cumsum(samples.weight_seconds)])
    return float((summed[until] - summed[:-1]).max())
