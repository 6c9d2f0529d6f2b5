"""A histogram that only grows, in fixed buckets and, for those who ask for it, in fine ones (Prometheus' native form).

Fine buckets are eight to each doubling: bucket n ends at 2^(n/8) seconds. What is shorter than `ZERO` is one bucket.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

SCHEMA = 3  # 2^3 buckets to a doubling
ZERO = 1e-4  # seconds: a wait of less is none


@dataclass(slots=True)
class Histogram:
    bounds: tuple[float, ...]  # upper ones, in seconds; what is beyond the last is counted too
    counts: list[int] = field(default_factory=list)  # of each bucket, one more than bounds
    total: float = 0.0  # seconds
    fine: dict[int, int] = field(default_factory=dict)
    zeros: int = 0

    def add(self, new: Mapping[str, Any]) -> None:
        """`counts` and `sum` of one look; `fine` as pairs and `zeros` where they were worked out."""
        before = self.counts or [0] * (len(self.bounds) + 1)
        self.counts = [old + more for old, more in zip(before, new["counts"], strict=True)]
        self.total += new["sum"]
        for bucket, more in new.get("fine", ()):
            self.fine[bucket] = self.fine.get(bucket, 0) + more
        self.zeros += new.get("zeros", 0)

    @property
    def count(self) -> int:
        return sum(self.counts)

    def cumulative(self) -> Iterator[tuple[float, int]]:
        """Upper bound, and how many are not beyond it."""
        total = 0
        for bound, count in zip((*self.bounds, float("inf")), self.counts, strict=True):
            total += count
            yield bound, total
