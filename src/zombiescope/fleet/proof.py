"""`fleet prove`: did a change help? Treated nodes before and after, against untreated ones that were alike before.

What happens to all nodes at once (a busy day, a quiet night) is in both differences, and drops out. `plan` says how
many nodes, and how many hours, would show it with nine chances in ten.
"""

from __future__ import annotations

from math import ceil, sqrt
from typing import Any

import numpy as np

from zombiescope.core import UserError, harmless
from zombiescope.fleet.chance import Floats
from zombiescope.fleet.reading import Fleet

Z95, Z90 = 1.645, 1.282  # one-sided 95 % confidence, 90 % power
TIMES = 3  # the fault must have had time to come again so often
CONTROLS = 3  # untreated nodes for each treated one
FEWEST = 5  # nodes of either kind
LEAST = 0.25  # hours on either side

# What is measured of a node and hour. Everything must fall.
MEASURES = {
    "events": "SELECT node_id, epoch(ts) AS moment, 1.0 AS much FROM events",
    "failed_jobs": "SELECT node_id, epoch(ended) AS moment, 1.0 AS much FROM jobs WHERE outcome = 'failed'",
    "restarts": "SELECT node_id, epoch(ts) AS moment, restarts::DOUBLE AS much FROM units WHERE restarts > 0",
    "saturated_seconds": "SELECT node_id, epoch(ts) AS moment, core_saturated_seconds AS much FROM metrics",
    "lost_core_hours": """SELECT node_id, epoch(started) AS moment, coalesce(core_hours, 0) AS much
        FROM costs WHERE role = 'root'""",
    "leaked": """SELECT node_id, epoch(ts) AS moment, greatest(memcg_dying - lag(memcg_dying) OVER
        (PARTITION BY node_id ORDER BY ts), 0)::DOUBLE AS much FROM metrics""",
}
USUAL = "events"


def _rates(fleet: Fleet, measure: str, start: float, end: float) -> dict[int, float]:
    """Of each node that was watched then, by the hour."""
    if measure not in MEASURES:
        raise UserError(f"{harmless(measure)}: no such measure; there are {', '.join(MEASURES)}")
    rows = fleet.rows(
        f"""
        WITH watched AS (SELECT node_id, sum(watched_seconds) / 3600 AS hours FROM node_hours
                         WHERE epoch(ts) >= $1 - 1 AND epoch(ts) < $2 GROUP BY 1)
        SELECT node_id, coalesce(sum(much) FILTER (moment >= $1 AND moment < $2), 0) / any_value(hours)
        FROM watched LEFT JOIN ({MEASURES[measure]}) m USING (node_id) WHERE hours > 0 GROUP BY 1""",
        [start, end],
    )
    return dict(rows)


def prove(fleet: Fleet, treated: str, at: float, measure: str = USUAL) -> dict[str, Any]:
    """Difference in differences over matched nodes; `treated` is a condition on the table `nodes`."""
    span = fleet.span
    first = ceil(at / 3600) * 3600  # the hour in which it was changed is neither before nor after
    last = at // 3600 * 3600
    if last - span.start < LEAST * 3600 or span.end - first < LEAST * 3600:
        raise UserError("nothing before, or after, the change in this range: give --hours, or --from and --to")
    before, after = (_rates(fleet, measure, *it) for it in ((span.start, last), (first, span.end)))
    changed = {it[0] for it in fleet.rows(f"SELECT node_id FROM nodes WHERE {treated}")}
    both = before.keys() & after.keys()
    ours, others = sorted(changed & both), sorted(both - changed)
    if len(ours) < FEWEST or len(others) < FEWEST:
        raise UserError(
            f"{len(ours)} treated and {len(others)} other nodes were seen before and after: {FEWEST} are needed"
        )
    differences, used = _differences(fleet, ours, others, before, after)
    mean, error = float(differences.mean()), float(differences.std(ddof=1) / sqrt(len(differences)))
    low, high = mean - 1.96 * error, mean + 1.96 * error
    was = float(np.mean([before[it] for it in ours]))
    hours = (span.end - first) / 3600
    expected = was * len(ours) * hours
    verdict = _verdict(low, high, was, expected)
    return {
        "measure": measure,
        "treated": len(ours),
        "controls": used,
        "before_per_hour": round(was, 4),
        "after_per_hour": round(float(np.mean([after[it] for it in ours])), 4),
        "controls_before_per_hour": round(float(np.mean([before[it] for it in others])), 4),
        "controls_after_per_hour": round(float(np.mean([after[it] for it in others])), 4),
        "effect_per_hour": [round(low, 4), round(mean, 4), round(high, 4)],
        "hours_after": hours,
        "would_have_come": round(expected, 1),
        "verdict": verdict,
        "says": f"{verdict}: {measure} of treated nodes changed by {mean:+.3g} an hour beyond what matched nodes did "
        f"(95 % interval {low:+.3g} to {high:+.3g}); before it was {was:.3g} an hour on each of {len(ours)} nodes",
    }


def _verdict(low: float, high: float, was: float, expected: float) -> str:
    if expected < TIMES:
        return "cannot tell"  # too rare, or too short: it would hardly have come anyway
    if high < 0:
        return "helped" if high < -0.5 * was else "helped in part"
    return "made it worse" if low > 0 else "no difference seen"


def _differences(
    fleet: Fleet, ours: list[int], others: list[int], before: dict[int, float], after: dict[int, float]
) -> tuple[Floats, int]:
    """Each treated node's change less that of the untreated ones that were most like it: same image and type first."""
    alike = {
        node: (image, kind)
        for node, image, kind in fleet.rows(
            "SELECT node_id, coalesce(image, ''), coalesce(instance_type, '') FROM nodes"
        )
    }
    groups: dict[tuple[str, str], list[int]] = {}
    for node in others:
        groups.setdefault(alike[node], []).append(node)
    found, used = [], set()
    for node in ours:
        near = groups.get(alike[node], [])
        near = near if len(near) >= CONTROLS else others
        chosen = sorted(near, key=lambda it: (abs(before[it] - before[node]), it))[:CONTROLS]
        used |= set(chosen)
        found.append(after[node] - before[node] - float(np.mean([after[it] - before[it] for it in chosen])))
    return np.array(found), len(used)


def plan(fleet: Fleet, measure: str = USUAL, remains: float = 0.5) -> dict[str, Any]:
    """For a change that leaves `remains` of it: treated nodes, as many untreated ones, and hours."""
    rates = _rates(fleet, measure, fleet.span.start, fleet.span.end)
    sick = np.array([it for it in rates.values() if it > 0])
    if len(sick) < FEWEST:
        raise UserError(f"{measure}: only {len(sick)} nodes have any of it in this range: nothing to plan with")
    rate = float(sick.mean())
    hours_seen = fleet.span.seconds / 3600
    # Nodes differ by more than chance: that part does not shrink with time, only with nodes.
    apart = max(float(sick.var(ddof=1)) - rate / hours_seen, 0.0)
    rows = []
    for hours in (1, 2, 6, 12, 24, 72, 168):
        spread = 2 * apart * (1 - remains) ** 2 + rate * (1 + remains) / hours
        nodes = ceil((Z95 + Z90) ** 2 * 2 * spread / (rate * (1 - remains)) ** 2)
        nodes = max(nodes, FEWEST, ceil(TIMES / (rate * hours)))
        rows.append({"hours": hours, "treated_nodes": nodes, "possible": nodes <= len(sick) // 2})
    return {
        "measure": measure,
        "nodes_with_it": len(sick),
        "per_hour": round(rate, 4),
        "remains": remains,
        "plans": rows,
    }
