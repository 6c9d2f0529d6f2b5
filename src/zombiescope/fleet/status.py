"""`fleet status`: how many nodes are sick and of what, what it costs, whether it grows, and who cannot be seen."""

from __future__ import annotations

from typing import Any

from zombiescope.core import harmless
from zombiescope.fleet.reading import Fleet
from zombiescope.fleet.sickness import HARMS
from zombiescope.fleet.trend import Change, changes

# What a root cause is on: a unit counts on all nodes together, a process or a core does not.
ROOT = "sign, CASE WHEN starts_with(subject, 'unit:') THEN subject ELSE '' END"
SILENT = 2  # hours in which a node sent nothing
SHOWN = 40  # root causes, the dearest: a screen


def status(fleet: Fleet, price: float | None = None) -> dict[str, Any]:
    """Harm in core-hours a day: waited and burnt cores of root causes, over the time in which they were seen.

    `nodes_more` and `nodes_less`: that have it in the second half of the range and not in the first, and the reverse.
    """
    span = fleet.span
    days = max(span.seconds, 3600) / 86400
    nodes, blind = fleet.rows("SELECT count(*), count(*) FILTER (len(blind) > 0) FROM nodes")[0]
    sick = fleet.rows(f"SELECT count(DISTINCT node_id) FROM findings WHERE role IN {HARMS}")[0][0]
    silent = fleet.rows(
        "SELECT count(*) FROM nodes WHERE epoch(ts) < ?", [fleet.hours[-1].start - (SILENT - 1) * 3600]
    )[0][0]
    roots = fleet.rows(
        f"""
        SELECT {ROOT} AS who, count(DISTINCT node_id), coalesce(sum(core_hours), 0), sum(coalesce(broken, 0)),
            min(soon_seconds), count(*) FILTER (core_hours IS NULL)
        FROM costs WHERE role = 'root' GROUP BY ALL ORDER BY 4 DESC, 3 DESC, 1, 2"""
    )
    changed = changes(fleet, ROOT)
    held = {
        (sign, who): bytes_held
        for sign, who, bytes_held in fleet.rows(f"""
        SELECT sign, who, sum(held) FROM (
            SELECT {ROOT} AS who, node_id,
                least(arg_max(coalesce(held_bytes, 0), ended), 1e18) AS held
            FROM findings WHERE role = 'root' GROUP BY ALL) GROUP BY ALL""")
    }
    shown = []
    for sign, who, many, hours, broken, soon, unknown in roots[:SHOWN]:
        cost, change = hours / days, changed.get((sign, who), Change())
        shown.append(
            {
                "sign": harmless(sign or ""),
                "subject": harmless(who or ""),
                "nodes": many,
                "core_hours_a_day": round(cost, 1),
                "money_a_day": None if price is None else round(cost * price, 2),
                "broken": int(broken),
                "held_bytes": round(held.get((sign, who), 0)),
                "soon_seconds": soon,
                "trend": change.trend,
                "nodes_more": change.came,
                "nodes_less": change.went,
                "cost_unknown": unknown,  # findings of which no cost was measured
            }
        )
    cost_of_all = sum(it[3] for it in roots) / days
    return {
        "nodes": nodes,
        "sick": sick,
        "blind": blind,
        "silent": silent,
        "core_hours_a_day": round(cost_of_all, 1),
        "money_a_day": None if price is None else round(cost_of_all * price, 2),
        "span": {"start": span.start, "end": span.end},
        "root_causes": shown,
        "more_root_causes": len(roots) - len(shown),
        "blind_signs": [
            {"sign": harmless(sign), "nodes": many}
            for sign, many in fleet.rows(
                "SELECT sign, count(*) FROM (SELECT unnest(blind) AS sign FROM nodes) "
                "GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 10"
            )
        ],
        "refused": [{"node": f"{node:016x}", "why": harmless(why)} for node, why in sorted(fleet.refused.items())[:20]],
        "refused_nodes": len(fleet.refused),
        "clocks_ahead": len(fleet.ahead),
    }
