"""What the samples of each probe cost on average, once a minute."""

from __future__ import annotations

from zombiescope.core import Reading
from zombiescope.recorder.changes import MINUTE
from zombiescope.recorder.sampling import CLOCK, COSTS


class Costs:
    """Adds up what the samples of one head say. Of those in which nothing was new it is not written."""

    def __init__(self) -> None:
        self._since: dict[str, tuple[float, float, int]] = {}  # by probe: since when, seconds of CPU, samples

    def mean(self, probe: str, at: float, cost: float) -> Reading | None:
        """Take the cost of a sample; the mean, if it is due."""
        since, total, many = self._since.get(probe, (0.0, 0.0, 0))
        total, many = total + cost, many + 1
        due = abs(at - since) >= MINUTE
        self._since[probe] = (at, 0.0, 0) if due else (since, total, many)
        return Reading(what=COSTS, subject=f"probe:{probe}", value=total / many, at=at, source=CLOCK) if due else None
