"""Does more of the cause make more of the effect, on the same node? Restarts of units against growth of dying cgroups.

Stretches of five minutes, compared with their own node's mean: whatever differs between nodes (zone, image, age) cannot
make such a slope. It separates causes that cohorts cannot, such as a unit and the image it comes with.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from zombiescope.core import harmless
from zombiescope.fleet.chance import Floats, Ints
from zombiescope.fleet.reading import Fleet

STRETCH = 300  # seconds; shorter ones blur: a count is read at another moment than the restart
FEWEST = 100  # stretches with a restart
STRONG = 6.0  # t: two dozen units are tried
LEAST = 0.05  # cgroups for each restart: less does not make a leak
MOST_NODES = 2_000  # of those with restarts; more do not make it surer


@dataclass(frozen=True, slots=True)
class Dose:
    unit: str
    slope: float  # dying cgroups for each restart
    error: float
    stretches: int
    nodes: int

    @property
    def t(self) -> float:
        return self.slope / self.error if self.error > 0 else 0.0

    @property
    def says(self) -> str:
        low, high = self.slope - 1.96 * self.error, self.slope + 1.96 * self.error
        return (
            f"each restart of {self.unit} leaves {self.slope:.3f} dying cgroups on its node "
            f"(95 % interval {low:.3f} to {high:.3f}; {self.stretches:,} times 5 minutes on {self.nodes:,} nodes)"
        )


def doses(fleet: Fleet) -> dict[str, Dose]:
    """Units whose restarts dying cgroups follow, by name."""
    # A count that was read just at the end of a stretch is what that stretch ended with.
    rows = fleet.table(f"""
        WITH restarting AS (
            SELECT node_id FROM units GROUP BY 1 HAVING sum(restarts) > 2 ORDER BY hash(node_id) LIMIT {MOST_NODES}),
        read AS (
            SELECT node_id, ((epoch_us(ts) - 1) // {STRETCH}000000)::BIGINT AS stretch,
                arg_max(memcg_dying, ts) AS dying
            FROM metrics SEMI JOIN restarting USING (node_id) WHERE memcg_dying IS NOT NULL GROUP BY ALL)
        SELECT node_id, stretch, dying - lag(dying) OVER w AS gained FROM read
        WINDOW w AS (PARTITION BY node_id ORDER BY stretch) QUALIFY stretch - lag(stretch) OVER w = 1
        ORDER BY node_id, stretch""")
    if rows.num_rows < FEWEST:
        return {}
    counted = fleet.rows(f"""
        SELECT unit, node_id, (epoch_us(ts) // {STRETCH}000000)::BIGINT, sum(restarts) FROM units
        WHERE restarts > 0 GROUP BY ALL ORDER BY unit""")
    node, stretch = rows["node_id"].to_numpy(), rows["stretch"].to_numpy()
    gained = rows["gained"].to_numpy().astype(float)
    place = {key: number for number, key in enumerate(zip(node.tolist(), stretch.tolist(), strict=True))}
    restarts: dict[str, Floats] = {}
    for unit, its, at, many in counted:
        if (its, at) in place:
            restarts.setdefault(unit, np.zeros(len(gained)))[place[its, at]] += many
    units = [unit for unit, its in restarts.items() if np.count_nonzero(its) >= FEWEST]
    if not units:
        return {}
    of = np.unique(node, return_inverse=True)[1]
    # A step down is a purge or a reboot, a huge step something else: neither is a dose.
    usual = (gained >= 0) & (gained <= np.quantile(gained, 0.999) * 2 + 10)
    for its in (restarts[unit] for unit in units):  # nor is what one node says of itself and no other comes near
        usual &= its <= np.median(its[its > 0]) * 50 + 50
    design = np.column_stack([_within(restarts[unit][usual], of[usual]) for unit in units])
    effect = _within(gained[usual], of[usual])
    found = {}
    inverse = np.linalg.pinv(design.T @ design)
    slopes = inverse @ design.T @ effect
    left = effect - design @ slopes
    # Stretches of one node are alike: the error is that of nodes, not of stretches.
    clusters = np.zeros((int(of.max()) + 1, len(units)))
    np.add.at(clusters, of[usual], design * left[:, None])
    errors = np.sqrt(np.maximum(np.diag(inverse @ (clusters.T @ clusters) @ inverse), 0))
    for number, unit in enumerate(units):
        mine = restarts[unit] > 0
        one = Dose(harmless(unit), float(slopes[number]), float(errors[number]), int(mine.sum()), len(set(of[mine])))
        if one.t >= STRONG and one.slope >= LEAST and one.nodes >= 3:
            found[one.unit] = one
    return found


def _within(values: Floats, of: Ints) -> Floats:
    """Less the mean of their own node."""
    counts = np.maximum(np.bincount(of), 1)
    found: Floats = values - (np.bincount(of, values) / counts)[of]
    return found
