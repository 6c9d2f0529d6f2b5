"""A program that is throttled does not empty its sockets, so their queues overflow."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 5.0  # seconds: a queue is full as long as its reader does not run


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    throttled, reader = cause.subject.removeprefix("cgroup:").rstrip("/"), effect.culprit.removeprefix("cgroup:")
    if throttled and reader and f"{reader}/".startswith(f"{throttled}/"):
        says = f"what reads there runs in {throttled}"
        yield Ground(kind="place", says=says, evidence=(cause.evidence[0], effect.evidence[-1]))
