"""Each change of a long table of mounts holds the lock of all mounts for longer, so others spin for it."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 10.0  # seconds: the table is long for as long as the lock is contended


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    if effect.subject == "lock:mounts":
        says = f"the lock is that of the mounts, of which there are {cause.evidence[0].value:,.0f}"
        yield Ground(kind="mechanism", says=says, evidence=(cause.evidence[0], effect.evidence[0]))
