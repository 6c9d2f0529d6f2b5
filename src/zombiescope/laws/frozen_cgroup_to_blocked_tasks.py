"""On cgroup v1 a frozen task sleeps uninterruptibly, so it counts as blocked."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 10.0  # seconds: blocked tasks are sampled every five


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    same = [it for it in effect.evidence if it.subject == cause.subject]
    waits = same or [it for it in effect.evidence if "refrigerator" in it.text or "mem_cgroup_oom" in it.text]
    if waits:
        says = f"{waits[0].subject.removeprefix('process:')} sleeps in {waits[0].text or 'it'}"
        yield Ground(kind="mechanism", says=says, evidence=(waits[0], cause.evidence[0]))
