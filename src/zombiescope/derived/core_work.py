"""What a saturated core did, by the stacks sampled there while it was."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core.model import Finding, Ground
from zombiescope.core.samples import Samples
from zombiescope.core.timeline import Timeline
from zombiescope.core.words import percent
from zombiescope.knowledge.functions import shows


def sampled_on(core: Finding, timeline: Timeline) -> Samples:
    """The samples of a finding's core (cpu:3) in the finding's time."""
    return timeline.samples(core.span, cpu=int(core.subject.removeprefix("cpu:")))


def fills_core(
    core: Finding, timeline: Timeline, family: str, *, least: float, words: str, called: str
) -> Iterator[Ground]:
    """That functions of a family took at least this share of what the core did.

    `words` begin the sentence ("page faults are"), `called` names the figure (fault_sampled_seconds).
    """
    there = sampled_on(core, timeline)
    work = there.where(lambda frames: shows(frames, family))
    if len(work) and work.seconds >= least * there.seconds:
        share, name = percent(work.seconds / there.seconds), core.subject.replace(":", " ")
        yield Ground(
            kind="mechanism",
            says=f"seen in stacks: {words} {share} of what {name} did then",
            evidence=(work.reading(core.subject, called), there.reading(core.subject)),
        )
