"""A page that was dropped has to be read again at the next touch, so programs wait for their own code and data."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 20.0  # seconds: what is in use is read again within that


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    if "major faults" in effect.says:
        says = "dropped pages were needed again right after the page cache was dropped"
        yield Ground(kind="mechanism", says=says, evidence=(cause.evidence[1], effect.evidence[0]))
