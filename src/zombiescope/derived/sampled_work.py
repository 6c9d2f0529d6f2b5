"""Work that stacks show: who did it, in which spells, and what it took from others."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from zombiescope.core.harm import Part
from zombiescope.core.model import Reading, Span
from zombiescope.core.samples import SECOND, Samples, Wanted
from zombiescope.core.timeline import Timeline
from zombiescope.core.words import harmless
from zombiescope.derived.sampled_processes import processes
from zombiescope.derived.waits import waited_for

FEWEST = 10  # samples: fewer are chance on any node
PAUSE = 20.0  # seconds: agents come round every 10 to 15 s, which counts as one spell
JUDGED = 60.0  # seconds: a share of a long recording is judged over a spell, and over so many at least
_WORKERS = ("kworker/", "ksoftirqd/", "swapper/")


class Work(NamedTuple):
    """One spell of work of one process, or of the kernel's own workers."""

    subject: str
    samples: Samples

    @property
    def span(self) -> Span:
        return Span(float(self.samples.at_seconds[0]), float(self.samples.at_seconds[-1]))

    @property
    def seconds(self) -> float:
        return self.samples.seconds

    @property
    def busiest(self) -> float:
        """The most time within one second, in cores."""
        until = np.searchsorted(self.samples.at, self.samples.at + SECOND)
        summed = np.concatenate([[0.0], np.cumsum(self.samples.weight_seconds)])
        return float((summed[until] - summed[:-1]).max())

    def burnt(self, timeline: Timeline) -> Iterator[Part]:
        """Its time on each core, and who else waited for that core, or for a share of the node's time."""
        for cpu in np.unique(self.samples.cpu).tolist():
            cores = self.samples.only(self.samples.cpu == cpu).seconds / max(self.span.seconds, 1.0)
            waited = waited_for(timeline, cpu, self.span, spent=cores, but=self.subject)
            yield Part(
                figure="burnt", who=self.subject, amount=cores, span=self.span, within=(f"cpu:{cpu}",), contended=waited
            )


def length(timeline: Timeline) -> float:
    """Seconds for which stacks were sampled."""
    return max(timeline.looks("samples_total").span.seconds, 1.0)


def judged_over(timeline: Timeline, span: Span) -> float:
    """Seconds of which a spell must take its share: all of a short recording; of a long one, so that what has just
    begun counts as it will later, no more than the spell; but what lasted for a moment is not taken for more."""
    return min(length(timeline), max(span.seconds, JUDGED))


def by_process(samples: Samples) -> list[tuple[str, Samples]]:
    """Who did it, the one with most time first; kernel workers are one, since any of them may have run it."""
    found: dict[str, list[int]] = {}
    for name, pid, _own in processes(samples):
        kernel = pid == 0 or name.startswith(_WORKERS)
        found.setdefault("process:the kernel's workers" if kernel else f"process:{name}[{pid}]", []).append(pid)
    merged = [(subject, samples.only(np.isin(samples.pid, pids))) for subject, pids in found.items()]
    return sorted(merged, key=lambda one: -one[1].seconds)


def spells(subject: str, samples: Samples, *, fewest: int = FEWEST, pause: float = PAUSE) -> Iterator[Work]:
    """Its work with long pauses between is separate; too few samples are left out."""
    edges = np.flatnonzero(np.diff(samples.at_seconds) > pause) + 1
    for start, end in zip([0, *edges], [*edges, len(samples)], strict=True):
        if end - start >= fewest:
            yield Work(subject, samples.only(slice(start, end)))


def longest(
    timeline: Timeline, who: list[tuple[str, Samples]], what: str, walk: str
) -> tuple[str, tuple[Reading, ...]]:
    """For a sign that is clear: who of these, the first of them, walked longest, or that nobody did."""
    taken = timeline.counted("samples_total")
    if not who:
        return f"none of {taken.value:,.0f} stack samples shows a walk through {walk}", (taken,)
    subject, samples = who[0]
    words = f"longest walk: {harmless(subject.removeprefix('process:'))} for {samples.seconds:.2f} s"
    return words, (samples.reading(subject, what), taken)


def spent_in(timeline: Timeline, samples: Samples, what: str, words: str) -> tuple[str, tuple[Reading, ...]]:
    """For a sign that is clear: how long the node was in this, by the samples, or that it never was."""
    taken = timeline.counted("samples_total")
    if not len(samples):
        return f"none of {taken.value:,.0f} stack samples is in {words}", (taken,)
    return f"{samples.seconds:.2f} s in {words}", (samples.reading("node", what), taken)


def sampled(timeline: Timeline, wanted: Wanted) -> Samples:
    return timeline.samples(wanted=wanted)


def busy_seconds(timeline: Timeline, span: Span) -> float:
    """Time on all cores in which something was done."""
    every = timeline.samples(span)
    return every.only(every.busy).seconds if len(every) else 0.0
