"""`fleet status`: how many nodes are sick and of what, what it costs, whether it grows, and who cannot be seen."""

from __future__ import annotations

from typing import Any

from zombiescope.core import harmless
from zombiescope.fleet.reading import Fleet
from zombiescope.fleet.sickness import HARMS

GROWS = 1.2  # times as many sick nodes in the second half of the range as in the first
FEWEST = 4  # hours, and nodes, for a trend
SILENT = 2  # hours in which a node sent nothing


def status(fleet: Fleet, price: float | None = None) -> dict[str, Any]:
    """Harm in core-hours a day: waited and burnt cores of root causes, over the time in which they were seen."""
    span = fleet.span
    middle = (span.start + span.end) / 2
    days = max(span.seconds, 3600) / 86400
    nodes, blind = fleet.rows("SELECT count(*), count(*) FILTER (len(blind) > 0) FROM nodes")[0]
    sick = fleet.rows(f"SELECT count(DISTINCT node_id) FROM findings WHERE role IN {HARMS}")[0][0]
    silent = fleet.rows(
        "SELECT count(*) FROM nodes WHERE epoch(ts) < ?", [fleet.hours[-1].start - (SILENT - 1) * 3600]
    )[0][0]
    roots = fleet.rows(
        """
        SELECT sign, CASE WHEN starts_with(subject, 'unit:') THEN subject ELSE '' END AS who,
            count(DISTINCT node_id) AS nodes,
            sum((coalesce(waited_cores, 0) + coalesce(burnt_cores, 0)) * (epoch(ended) - epoch(started)) / 3600),
            sum(coalesce(broken, 0)), min(soon_seconds),
            count(DISTINCT node_id) FILTER (epoch(started) < $1), count(DISTINCT node_id) FILTER (epoch(started) >= $1),
            count(*) FILTER (waited_cores IS NULL AND burnt_cores IS NULL)
        FROM findings WHERE role = 'root' GROUP BY ALL ORDER BY 4 DESC, 3 DESC""",
        [middle],
    )
    held = {
        (sign, who): bytes_held
        for sign, who, bytes_held in fleet.rows("""
        SELECT sign, who, sum(held) FROM (
            SELECT sign, CASE WHEN starts_with(subject, 'unit:') THEN subject ELSE '' END AS who, node_id,
                least(arg_max(coalesce(held_bytes, 0), ended), 1e18) AS held
            FROM findings WHERE role = 'root' GROUP BY ALL) GROUP BY ALL""")
    }
    shown = []
    for sign, who, many, hours, broken, soon, early, late, unknown in roots:
        cost = hours / days
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
                "trend": _trend(early, late, len(fleet.hours)),
                "cost_unknown": unknown,  # findings of which no cost was measured
            }
        )
    return {
        "nodes": nodes,
        "sick": sick,
        "blind": blind,
        "silent": silent,
        "core_hours_a_day": round(sum(it["core_hours_a_day"] for it in shown), 1),
        "money_a_day": None if price is None else round(sum(it["money_a_day"] for it in shown), 2),
        "span": {"start": span.start, "end": span.end},
        "root_causes": shown,
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


def _trend(early: int, late: int, hours: int) -> str:
    if hours < FEWEST or max(early, late) < FEWEST:
        return "unknown"
    if late >= early * GROWS and late - early >= FEWEST:
        return "growing"
    return "shrinking" if early >= late * GROWS and early - late >= FEWEST else "steady"
