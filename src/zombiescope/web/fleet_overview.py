"""Every node of a fleet as the page gets it: one row each, in columns; traits as places in lists of their values.

A node is sick if something on it harms somebody; else unchecked if a sign could not be checked; else clear. What it
costs is counted as `fleet status` counts it: waited and burnt cores of root causes, as core-hours a day.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from zombiescope.core import harmless
from zombiescope.fleet.reading import Fleet
from zombiescope.fleet.sickness import HARMS
from zombiescope.fleet.status import ROOT, SILENT, status
from zombiescope.web._columns import Columns
from zombiescope.web._finite import finite
from zombiescope.web.fleet_trends import by_hour

MAGIC = b"zsfleet1"
TRAITS = ("zone", "image", "kernel", "instance_type")
MOST_NODES = 200_000  # on one page: cells of three pixels, and some 20 MB
MOST_VALUES = 200  # of one trait to group by
MOST_TRAITS = 60  # labels among them
MOST_UNITS = 100  # to group by: those in which nodes differ most
MOST_ROOTS = 100  # root causes to filter by: the most common
CLEAR, UNCHECKED, SICK = 0, 1, 2


def overview(fleet: Fleet, label: str, price: float | None = None) -> bytes:
    """All of the first picture, as one piece."""
    rows = fleet.rows(f"""
        SELECT n.node_id, n.name, {", ".join(f"n.{it}" for it in TRAITS)}, n.labels, coalesce(n.cores, 0),
            len(coalesce(n.blind, [])), coalesce(epoch(n.ts), 0),
            coalesce(f.harms, 0), f.cost, coalesce(f.broken, 0), f.soon
        FROM nodes n LEFT JOIN (
            SELECT node_id, count(*) FILTER (role IN {HARMS}) AS harms,
                sum(core_hours) FILTER (role = 'root') AS cost,
                sum(broken) FILTER (role = 'root') AS broken, min(soon_seconds) FILTER (role = 'root') AS soon
            FROM costs GROUP BY 1) f USING (node_id)
        ORDER BY n.node_id LIMIT {MOST_NODES}""")
    ids = [it[0] for it in rows]
    columns = Columns()
    columns.words("id", [f"{it:016x}" for it in ids])
    columns.words("name", [harmless(it[1] or "", most=120) or f"{it[0]:016x}" for it in rows])
    values = {trait: [row[2 + place] for row in rows] for place, trait in enumerate(TRAITS)}
    labels = [dict(row[6] or {}) for row in rows]
    # The most common ones: a single node with odd labels takes nobody's place.
    common = Counter(key for one in labels for key in one).most_common(MOST_TRAITS - len(TRAITS))
    for key in sorted(key for key, _ in common):
        values.setdefault(harmless(key, most=80), [one.get(key) for one in labels])
    traits = [shown for trait, its in values.items() if (shown := _trait(columns, trait, its))]
    last = fleet.hours[-1].start - (SILENT - 1) * 3600
    state = [SICK if row[10] else UNCHECKED if row[8] else CLEAR for row in rows]
    columns.numbers("state", np.array(state, np.int64))
    columns.numbers("silent", np.array([row[9] < last for row in rows], np.int64))
    columns.numbers("cores", np.clip(np.array([row[7] for row in rows], np.int64), 0, None))
    days = max(fleet.span.seconds, 3600) / 86400
    columns.numbers("cost", _finite([row[11] for row in rows]) / days)  # NaN: unknown
    columns.numbers("broken", np.clip(np.array([row[12] for row in rows], np.int64), 0, None))
    columns.numbers("soon", _finite([row[13] for row in rows]))
    said = status(fleet, price)
    header = {
        "label": harmless(label),
        "status": said,
        "left_out": max(0, said["nodes"] - len(rows)),
        "traits": traits,
        "roots": _roots(fleet, columns, ids),
        "units": _units(fleet, columns, ids),
        "signs": _signs(fleet),
        "hours": by_hour(fleet),
    }
    return columns.packed(MAGIC, finite(header))


def _finite(values: Sequence[float | None]) -> npt.NDArray[np.float32]:
    """Unknown where a node sent nothing, or what is no number."""
    found = np.array([np.nan if it is None else it for it in values], np.float64)
    found[~np.isfinite(found)] = np.nan
    return np.clip(found, 0, 1e12).astype(np.float32)


def _trait(columns: Columns, trait: str, values: Sequence[object]) -> dict[str, Any] | None:
    """Place 0 is unknown. One with too many values cannot be grouped by, and is left out unless it is of ours."""
    known = ["" if it is None else harmless(str(it), most=120) for it in values]
    distinct = sorted({it for it in known if it})
    if not distinct or (len(distinct) > MOST_VALUES and trait not in TRAITS):
        return None
    place = {"": 0} | {it: number for number, it in enumerate(distinct, 1)}
    columns.numbers(f"trait:{trait}", np.array([place[it] for it in known], np.int64))
    return {"name": trait, "values": ["", *distinct], "groups": len(distinct) <= MOST_VALUES}


def _places(nodes: Sequence[int], ids: Sequence[int]) -> npt.NDArray[np.int64]:
    """Of nodes by their id, which are in order, the places; others are left out."""
    wanted, known = np.array(nodes, np.uint64), np.array(ids, np.uint64)
    found = np.searchsorted(known, wanted)
    fits = found < len(known)
    fits[fits] = known[found[fits]] == wanted[fits]
    return found[fits].astype(np.int64)


def _roots(fleet: Fleet, columns: Columns, ids: Sequence[int]) -> list[dict[str, Any]]:
    """Root causes, the most common first, each with its nodes; and of each node its dearest one, from 1."""
    rows = fleet.rows(f"""
        SELECT sign, who, list(node_id ORDER BY node_id), list(cost ORDER BY node_id) FROM (
            SELECT node_id, {ROOT} AS who, coalesce(sum(core_hours), 0) AS cost
            FROM costs WHERE role = 'root' GROUP BY ALL)
        GROUP BY ALL ORDER BY count(*) DESC, sum(cost) DESC, sign, who LIMIT {MOST_ROOTS}""")
    worst, dearest = np.zeros(len(ids), np.int64), np.full(len(ids), -1.0)
    shown = []
    for number, (sign, who, nodes, costs) in enumerate(rows):
        places = _places(nodes, ids)
        its = np.nan_to_num(np.array(costs, np.float64)[np.isin(np.array(nodes, np.uint64), np.array(ids, np.uint64))])
        dearer = its > dearest[places]
        worst[places[dearer]], dearest[places[dearer]] = number + 1, its[dearer]
        columns.numbers(f"root:{number}", places)
        shown.append({"sign": harmless(sign or ""), "subject": harmless(who or ""), "nodes": len(places)})
    columns.numbers("worst", worst)
    return shown


def _units(fleet: Fleet, columns: Columns, ids: Sequence[int]) -> list[str]:
    """Units that are active on some nodes and not on others, each with the nodes on which it is."""
    rows = fleet.rows(
        f"""
        SELECT unit, list(node_id ORDER BY node_id) FROM (SELECT DISTINCT unit, node_id FROM units WHERE active)
        GROUP BY 1 HAVING count(*) < $1 ORDER BY least(count(*), $1 - count(*)) DESC, unit LIMIT {MOST_UNITS}""",
        [len(ids)],
    )
    for number, (_, nodes) in enumerate(rows):
        columns.numbers(f"unit:{number}", _places(nodes, ids))
    return [harmless(unit or "", most=120) for unit, _ in rows]


def _signs(fleet: Fleet) -> list[dict[str, Any]]:
    """What nodes may be sick of, to compare by; most common first."""
    rows = fleet.rows(f"""
        SELECT sign, count(DISTINCT node_id) FROM (
            SELECT sign, node_id FROM findings WHERE role IN {HARMS} UNION ALL SELECT kind, node_id FROM events)
        WHERE regexp_full_match(sign, '[a-z_]{{1,60}}') GROUP BY 1 ORDER BY 2 DESC, 1 LIMIT 60""")
    return [{"sign": sign, "nodes": many} for sign, many in rows]
