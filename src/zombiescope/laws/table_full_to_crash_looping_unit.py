"""A service that is refused a thread cannot start or work, fails, and is started again into the same limit."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.unit_cgroups import is_of
from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 60.0  # seconds: a unit waits between two starts


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    path = cause.subject.removeprefix("cgroup:")
    if path != cause.subject and is_of(effect.subject, f"family:{path}", timeline):
        says = f"threads were refused in its own cgroup {path}"
        yield Ground(kind="place", says=says, evidence=(cause.evidence[0], effect.evidence[0]))
