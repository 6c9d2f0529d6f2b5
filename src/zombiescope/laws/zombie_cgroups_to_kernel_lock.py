"""Statistics are flushed cgroup by cgroup under one lock, dying cgroups included, so others spin for it meanwhile."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 10.0  # seconds: they are there for as long as the lock is contended


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    if effect.subject == "lock:cgroup statistics":
        says = "the lock is that of the cgroup statistics"
        yield Ground(kind="mechanism", says=says, evidence=(cause.evidence[0], effect.evidence[0]))
