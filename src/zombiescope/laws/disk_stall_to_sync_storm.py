"""A disk that takes long for each request takes long to write a journal, so everybody waits for it."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, percent
from zombiescope.core.timeline import Timeline

WITHIN = 30.0  # seconds: what is dirty is written for as long as that
LEAST = 0.2  # of the time that tasks waited for I/O: with less, the disk is not what they wait for


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    pressure = timeline.rate("pressure_io_waiting_seconds_total").between(effect.span)
    if len(pressure) and pressure.mean() >= LEAST:
        says = f"tasks waited for I/O {percent(pressure.mean())} of that time"
        yield Ground(kind="dose", says=says, evidence=(cause.evidence[0], pressure.latest))
