"""Whoever logs prints what all others logged as well, so on a slow console a core prints for seconds."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, percent
from zombiescope.core.timeline import Timeline

WITHIN = 30.0  # seconds: what waits for the line is printed after the flood as well
FULL = 0.9  # of what the line takes: with less, printing catches up


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    figures = {it.what: it for it in cause.evidence}
    printed, speed = figures.get("console_printed_bytes_per_second"), figures.get("console_bytes_per_second")
    if printed is None or speed is None or printed.value < FULL * speed.value:
        return
    says = f"the log takes {percent(printed.value / speed.value)} of what the console prints in a second"
    yield Ground(kind="dose", says=says, evidence=(printed, speed, effect.evidence[0]))
