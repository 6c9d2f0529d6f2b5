"""A fleet hour by hour: nodes that were seen, those that were sick and of what, what it cost, and what leaks."""

from __future__ import annotations

from typing import Any

from zombiescope.core import harmless
from zombiescope.fleet.leaks import leaks
from zombiescope.fleet.reading import Fleet
from zombiescope.fleet.sickness import HARMS
from zombiescope.fleet.status import ROOT

LINES = 6  # root causes with a line of their own: more cannot be told apart
SHOWN = 200  # leaking nodes, the fastest
HOUR = "epoch_us({}) // 3600000000 * 3600"  # in which a time lies


def by_hour(fleet: Fleet) -> dict[str, Any]:
    """Hours that nobody sent are absent, not zero."""
    hours = [it.start for it in fleet.hours]
    seen = dict(fleet.rows(f"SELECT {HOUR.format('ts')}, count(DISTINCT node_id) FROM node_hours GROUP BY 1"))
    costs = {
        at: (sick, cost)
        for at, sick, cost in fleet.rows(f"""
            SELECT {HOUR.format("started")}, count(DISTINCT node_id), sum(core_hours) FILTER (role = 'root')
            FROM costs WHERE role IN {HARMS} GROUP BY 1""")
    }
    kinds: dict[tuple[str, str], dict[int, int]] = {}
    for sign, who, at, many in fleet.rows(f"""
        SELECT {ROOT}, {HOUR.format("started")}, count(DISTINCT node_id)
        FROM findings WHERE role = 'root' GROUP BY ALL"""):
        kinds.setdefault((sign or "", who or ""), {})[at] = many
    most = sorted(kinds.items(), key=lambda it: (-max(it[1].values()), it[0]))[:LINES]
    return {
        "at": hours,
        "seen": [seen.get(at) for at in hours],
        "sick": [costs.get(at, (0, 0))[0] if at in seen else None for at in hours],
        "cores": [(costs.get(at, (0, 0.0))[1] or 0.0) if at in seen else None for at in hours],
        "roots": [
            {
                "sign": harmless(sign),
                "subject": harmless(who),
                "nodes": [its.get(at, 0) if at in seen else None for at in hours],
            }
            for (sign, who), its in most
        ],
    }


def growth(fleet: Fleet) -> dict[str, Any]:
    """Dying cgroups a node by the hour (the mean of those that sent it), and what `fleet leaks` says, shortened."""
    found = leaks(fleet)
    rows = fleet.rows(f"""
        SELECT hour, avg(dying) FROM (
            SELECT node_id, {HOUR.format("ts")} AS hour, avg(memcg_dying) AS dying FROM metrics GROUP BY ALL)
        GROUP BY 1""")
    means = dict(rows)
    return found | {
        "leaking": found["leaking"][:SHOWN],
        "leaking_nodes": len(found["leaking"]),
        "at": [it.start for it in fleet.hours],
        "dying": [means.get(it.start) for it in fleet.hours],
    }
