"""What nodes may have in common: one yes or no for each value of each trait, for every node.

A unit counts by what it did in the range: was it active at any time, enabled, restarted. All else counts as it was when
the node was last heard of. A trait with nearly as many values as nodes (a host name, a serial number) tells nothing.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from zombiescope.core import harmless
from zombiescope.fleet.chance import Bools
from zombiescope.fleet.reading import Fleet

FEWEST = 5  # nodes with a value, and without it: less can never be told from chance
MOST_VALUES = 200  # of one trait
COLUMNS = ("zone", "image", "kernel", "instance_type", "cores")
STATES = ("active", "restarting", "enabled")  # of a unit; the first that fits best is named


@dataclass(slots=True)
class Factors:
    nodes: list[int]  # node_id
    names: list[str]
    factors: list[str] = field(default_factory=list)
    having: list[Bools] = field(default_factory=list)
    left_out: list[str] = field(default_factory=list)  # traits with too many values

    def add(self, factor: str, having: Bools) -> None:
        if FEWEST <= int(having.sum()) <= len(having) - FEWEST:
            self.factors.append(factor)
            self.having.append(having)


def factors_of(fleet: Fleet) -> Factors:
    columns = ", ".join(COLUMNS)
    rows = fleet.rows(f"SELECT node_id, name, {columns}, labels FROM nodes ORDER BY node_id")
    found = Factors([it[0] for it in rows], [harmless(it[1] or "") or f"{it[0]:016x}" for it in rows])
    values = {name: [row[2 + place] for row in rows] for place, name in enumerate(COLUMNS)}
    labels = [dict(row[-1] or {}) for row in rows]
    for key in sorted({key for one in labels for key in one}):
        values[harmless(key)] = [one.get(key) for one in labels]
    for trait, its in values.items():
        _by_value(found, trait, its)
    _units(found, fleet)
    return found


def _by_value(found: Factors, trait: str, values: list[object]) -> None:
    known = [None if it is None or it == "" else harmless(str(it)) for it in values]
    distinct = sorted({it for it in known if it is not None})
    if len(distinct) > MOST_VALUES or len(distinct) > max(2, len(known) // FEWEST):
        found.left_out.append(f"{trait}: {len(distinct)} different values")
        return
    array = np.array(known, object)
    for value in distinct:
        found.add(f"{trait}={value}", array == value)


def _units(found: Factors, fleet: Fleet) -> None:
    rows = fleet.table("""
        SELECT coalesce(unit, '') AS unit, node_id, coalesce(bool_or(active), false) AS active,
            coalesce(sum(restarts) > 2, false) AS restarting, coalesce(bool_or(enabled), false) AS enabled
        FROM units GROUP BY ALL""")
    ids = np.array(found.nodes, np.uint64)  # sorted
    place = np.searchsorted(ids, rows["node_id"].to_numpy())
    known = (place < len(ids)) & (ids[np.minimum(place, len(ids) - 1)] == rows["node_id"].to_numpy())
    names, of = np.unique([harmless(it) for it in rows["unit"].to_pylist()], return_inverse=True)
    states = np.zeros((len(STATES), len(names), len(ids)), np.bool_)
    for number, state in enumerate(STATES):
        # Names of two units may be the same once they are harmless to print: either counts.
        np.logical_or.at(states[number], (of[known], place[known]), rows[state].to_numpy()[known])
    for unit, name in enumerate(names.tolist()):
        for number, state in enumerate(STATES):
            found.add(f"unit:{name}={state}", states[number, unit])
        found.add(f"unit:{name}=inactive", ~states[0, unit])


def family(factor: str) -> str:
    """Traits that say the same of one thing: the states of a unit."""
    return factor.rpartition("=")[0] if factor.startswith("unit:") else factor
