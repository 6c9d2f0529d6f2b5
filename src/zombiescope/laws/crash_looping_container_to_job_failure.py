"""Each end of a container that loops is the end of the work in it, so its restarts are that loop's."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 120.0  # seconds: ends are read at their own time, restarts are counted once a minute


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    if cause.subject == effect.subject:
        evidence = (cause.evidence[0], effect.evidence[-1])
        yield Ground(kind="mechanism", says="it is the same container: these restarts are the loop", evidence=evidence)
