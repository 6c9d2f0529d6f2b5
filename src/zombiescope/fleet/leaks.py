"""`fleet leaks`: nodes on which dying cgroups grow, how fast, since when, and what changed on them just before.

Onset is where the growth of five-minute stretches changes most (the split that leaves the least squares). A change is
worth naming if it comes with onsets far more often than with other hours of other nodes.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zombiescope.core import harmless
from zombiescope.fleet.chance import Floats, Strata, false_discoveries
from zombiescope.fleet.reading import Fleet

STRETCH = 300  # seconds: shorter ones are noise, and cost the square
EDGE = 2  # stretches at either end in which no onset can be told from noise
CLEARLY = 4.0  # times as fast after the onset as before; else it grew all along
MOST = 5_000  # nodes, the fastest
NAMED = 0.01  # q of a change
SHOWN = 10  # changes


def leaks(fleet: Fleet, least: float = 1.0) -> dict[str, Any]:
    """`least`: dying cgroups an hour."""
    rows = fleet.table(f"""
        WITH growing AS (
            SELECT node_id FROM metrics WHERE memcg_dying IS NOT NULL GROUP BY 1
            HAVING regr_slope(memcg_dying, epoch(ts)) * 3600 >= {float(least)}
            ORDER BY regr_slope(memcg_dying, epoch(ts)) DESC LIMIT {MOST})
        SELECT node_id, (epoch_us(ts) // {STRETCH}000000)::BIGINT AS stretch, median(memcg_dying) AS dying
        FROM metrics SEMI JOIN growing USING (node_id) WHERE memcg_dying IS NOT NULL
        GROUP BY ALL ORDER BY node_id, stretch""")
    node, stretch = rows["node_id"].to_numpy(), rows["stretch"].to_numpy().astype(np.int64)
    dying = rows["dying"].to_numpy(zero_copy_only=False).astype(float)
    known = _names(fleet)
    found, onsets = [], {}
    edges = np.flatnonzero(np.append(True, node[1:] != node[:-1])) if len(node) else np.empty(0, np.int64)
    for start, end in zip(edges, [*edges[1:], len(node)], strict=True):
        its, at, values = int(node[start]), stretch[start:end], dying[start:end]
        if len(at) < 2 * EDGE + 2:
            continue
        growth, onset = _onset(at, values)
        if growth < least:
            continue
        if onset is not None:
            onsets[its] = onset
        name, soon = known.get(its, ("", None))
        found.append(
            {
                "node": harmless(name) or f"{its:016x}",
                "dying": round(values[-1]),
                "growth_per_hour": round(growth, 1),
                "onset": onset,
                "soon_seconds": soon,
            }
        )
    found.sort(key=lambda it: -float(it["growth_per_hour"]))
    return {
        "nodes": fleet.rows("SELECT count(*) FROM nodes")[0][0],
        "leaking": found,
        "onsets": len(onsets),
        "changed_before": _changes(fleet, onsets),
    }


def _names(fleet: Fleet) -> dict[int, tuple[str, float | None]]:
    rows = fleet.rows("""
        SELECT n.node_id, n.name, min(f.soon_seconds) FROM nodes n
        LEFT JOIN findings f ON f.node_id = n.node_id AND f.role = 'root' GROUP BY ALL""")
    return {node: (name or "", soon) for node, name, soon in rows}


def _onset(at: np.ndarray[Any, np.dtype[np.int64]], values: Floats) -> tuple[float, float | None]:
    """Growth an hour since the onset; and the onset in unix seconds, None if it was there when the range began."""
    steps = np.diff(at)
    gains = np.diff(values) / steps  # of one stretch; a gap counts as so many alike
    an_hour = 3600 / STRETCH
    many = len(gains)
    sums, count = np.cumsum(gains), np.arange(1, many + 1)
    left, right = sums[:-1] / count[:-1], (sums[-1] - sums[:-1]) / (many - count[:-1])
    between = count[:-1] * (many - count[:-1]) * (left - right) ** 2
    between[: EDGE - 1] = between[many - EDGE :] = 0
    split = int(between.argmax())
    before, after = float(left[split]), float(right[split])
    if after > max(before, 0.0) * CLEARLY and after * an_hour > 0 and between[split] > 0:
        noise = float(np.std(np.concatenate([gains[: split + 1] - before, gains[split + 1 :] - after])))
        if (after - before) > 2 * noise / np.sqrt(min(split + 1, many - split - 1)):
            return after * an_hour, float((at[split + 1]) * STRETCH)
    return float(sums[-1] / many * an_hour), None


def _changes(fleet: Fleet, onsets: dict[int, float]) -> list[dict[str, Any]]:
    """Changes in the hour of an onset, against all other hours of all nodes."""
    if not onsets:
        return []
    rows = fleet.rows("""
        WITH traits AS (
            SELECT node_id, epoch(ts)::BIGINT // 3600 AS hour, trait, value FROM (
                UNPIVOT (SELECT node_id, ts, image, kernel, boot FROM node_hours) ON image, kernel, boot
                INTO NAME trait VALUE value)
            UNION ALL SELECT node_id, epoch(ts)::BIGINT // 3600, e.key, e.value
                FROM (SELECT node_id, ts, unnest(map_entries(labels)) AS e FROM node_hours)
            UNION ALL SELECT node_id, epoch(ts)::BIGINT // 3600, 'unit:' || unit,
                if(bool_or(active), 'active', 'inactive') FROM units GROUP BY ALL)
        SELECT node_id, hour, trait, value, old FROM (
            SELECT *, lag(value) OVER w AS old, hour - lag(hour) OVER w AS since FROM traits
            WINDOW w AS (PARTITION BY node_id, trait ORDER BY hour))
        WHERE old IS NOT NULL AND value <> old AND since <= 3""")
    hours = fleet.rows("SELECT count(*) FROM node_hours")[0][0]
    began = {(node, int(at) // 3600) for node, at in onsets.items()}
    all_of: dict[str, set[tuple[int, int]]] = {}
    for node, hour, trait, value, old in rows:
        what = (
            f"{harmless(trait)} changed"
            if trait == "boot"
            else f"{harmless(trait)}: {harmless(old)} → {harmless(value)}"
        )
        all_of.setdefault(what, set()).add((node, hour))
    if not all_of:
        return []
    whats = list(all_of)
    hits = [len(its & began) for its in all_of.values()]
    ps = [
        Strata(*(np.array([it]) for it in (hours, len(all_of[what]), len(began), hit))).p()
        for what, hit in zip(whats, hits, strict=True)
    ]
    qs = false_discoveries(np.array(ps), len(ps))
    order = sorted(range(len(whats)), key=lambda it: ps[it])
    return [
        {
            "change": whats[it],
            "onsets": hits[it],
            "of_onsets": len(began),
            "other_hours": len(all_of[whats[it]]) - hits[it],
            "q": float(qs[it]),
        }
        for it in order[:SHOWN]
        if qs[it] < NAMED
    ]
