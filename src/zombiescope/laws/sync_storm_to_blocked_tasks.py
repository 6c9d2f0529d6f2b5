"""A task that waits for the journal, or for pages to be written, sleeps uninterruptibly until that is done."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 10.0  # seconds: blocked tasks are sampled every five


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    waiting = {it.subject: it for it in cause.evidence if it.what == "process_blocked_seconds"}
    both = [it for it in effect.evidence if it.subject in waiting]
    if both:
        who, where = both[0].subject.removeprefix("process:"), waiting[both[0].subject].text
        says = f"{who} is one of those that wait for writing, in {where}"
        yield Ground(kind="mechanism", says=says, evidence=(both[0], waiting[both[0].subject]))
