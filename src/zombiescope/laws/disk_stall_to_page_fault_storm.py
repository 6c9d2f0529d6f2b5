"""A page that was dropped comes back from disk, so on a slow disk every such fault waits for it."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, percent
from zombiescope.core.timeline import Timeline

WITHIN = 10.0  # seconds: faults wait for as long as the disk is slow
LEAST = 0.2  # of the time that tasks waited for I/O: with less, the disk is not what they wait for


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    pressure = timeline.rate("pressure_io_waiting_seconds_total").between(effect.span)
    if "major faults" not in effect.says or not cause.subject.startswith("disk:") or not len(pressure):
        return
    if pressure.mean() >= LEAST:
        says = f"pages come from disk, and tasks waited for I/O {percent(pressure.mean())} of that time"
        yield Ground(kind="dose", says=says, evidence=(cause.evidence[0], effect.evidence[0]))
