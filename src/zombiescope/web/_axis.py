"""The time axis of everything on the page, in ticks."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from zombiescope.core.samples import Samples
from zombiescope.core.timeline import Floats, Timeline

SECOND = 1_000_000_000
CELL = 20_000_000  # nanoseconds: the finest cell of the heatmap, fifty a second
_MOST_CELLS = 10_000_000  # 55 hours of 20 ms; one wrong timestamp may make a source seem to last for centuries
_MOST_TICKS = (1 << 32) - 2


@dataclass(frozen=True, slots=True)
class Axis:
    """All in nanoseconds; `origin` is on the capture's clock. A heatmap cell is whole ticks, or less than one."""

    origin: int
    length: int
    tick: int
    cell: int

    def coarser(self, tick: int) -> Axis:
        return replace(self, tick=tick)

    def seconds(self, at: float) -> float:
        """Unix seconds as seconds since the axis begins."""
        return at - self.origin / SECOND

    def edges(self, cell: int) -> Floats:
        """Where cells of `cell` nanoseconds begin, and where the last one ends, in unix seconds."""
        return np.asarray(self.origin / SECOND + np.arange(self.length // cell + 1) * (cell / SECOND), np.float64)


def axis_of(capture: Samples, timeline: Timeline | None) -> Axis:
    """What the samples and the readings span together, from a whole second to a whole second."""
    edges = [capture.start, capture.end] if len(capture) and capture.clock != "none" else []
    if timeline is not None and timeline.span.seconds > 0:
        edges += [round(timeline.span.start * SECOND), round(timeline.span.end * SECOND)]
    if not edges:
        return Axis(0, 0, 1, CELL)
    # Rows of a heatmap are offsets within a second, so a second begins where the clock's does.
    origin = min(edges) // SECOND * SECOND
    length = -(-(max(edges) - origin) // SECOND) * SECOND
    tick, cell = 1, CELL
    while length // tick > _MOST_TICKS:
        tick *= 10  # 12 hours have ticks of 0.1 ms
    while length // cell > _MOST_CELLS:
        cell *= 5
    return Axis(origin, length, tick if cell % tick == 0 else cell, cell)
