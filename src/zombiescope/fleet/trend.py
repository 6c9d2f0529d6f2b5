"""Is a root cause growing? Each node is compared with itself: the first half of the range against the second.

Nodes that stay sick say nothing about it: where 100 are sick and 8 more fall sick, and none recovers, it grows, however
slowly. Nodes that were not there in both halves are left out: a fleet that gets larger is not one that gets sicker.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

from zombiescope.fleet.reading import Fleet

FEWEST = 4  # hours, and nodes, for a trend
Z = 2.58  # 99 %: a status has a dozen root causes
STEADY = 0.1  # of the sick nodes: a change that is certainly smaller is none


@dataclass(frozen=True, slots=True)
class Change:
    stayed: int = 0  # nodes that had it in both halves
    came: int = 0  # only in the second
    went: int = 0  # only in the first
    cost: float = 0.0  # mean change of a node that had it at all, in cores
    error: float = 0.0  # standard error of that

    @property
    def trend(self) -> str:
        """By nodes; where they cannot tell, by what it costs them. Steady only if a change would have been seen."""
        if self.stayed + self.came + self.went < FEWEST:
            return "unknown"
        more, error = self.came - self.went, Z * sqrt(self.came + self.went + 1)
        way = _way(more, error) or _way(self.cost, Z * self.error)
        same = not self.came + self.went or abs(more) + error <= STEADY * (self.stayed + self.went)
        return way or ("steady" if same else "unknown")


def _way(change: float, error: float) -> str:
    if abs(change) <= error or not change:
        return ""
    return "growing" if change > 0 else "shrinking"


def changes(fleet: Fleet, root: str) -> dict[tuple[str, str], Change]:
    """By sign and subject, as the SQL `root` names both; empty if there are too few hours. Halves are equally long."""
    half = len(fleet.hours) // 2
    if len(fleet.hours) < FEWEST:
        return {}
    early, late = fleet.hours[half - 1].end, fleet.hours[-half].start
    rows = fleet.rows(
        f"""
        WITH seen AS (
            SELECT node_id, count(DISTINCT ts) FILTER (epoch(ts) < $1) AS first,
                count(DISTINCT ts) FILTER (epoch(ts) >= $2) AS second
            FROM node_hours GROUP BY 1 HAVING first > 0 AND second > 0),
        each AS (
            SELECT {root} AS who, node_id, count(*) FILTER (epoch(started) < $1) AS before,
                count(*) FILTER (epoch(started) >= $2) AS after,
                coalesce(sum(core_hours) FILTER (epoch(started) >= $2), 0) / any_value(second)
                    - coalesce(sum(core_hours) FILTER (epoch(started) < $1), 0) / any_value(first) AS dearer
            FROM costs JOIN seen USING (node_id) WHERE role = 'root' GROUP BY ALL)
        SELECT sign, who, count(*) FILTER (before > 0 AND after > 0), count(*) FILTER (before = 0 AND after > 0),
            count(*) FILTER (before > 0 AND after = 0), avg(dearer), coalesce(stddev_samp(dearer) / sqrt(count(*)), 0)
        FROM each GROUP BY ALL""",
        [early, late],
    )
    return {(sign, who): Change(*figures) for sign, who, *figures in rows}
