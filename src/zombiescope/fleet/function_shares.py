"""What share of its time each node spends in each function itself, from what the nodes have summed up by the hour."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from zombiescope.core import harmless
from zombiescope.fleet.partial_sums import Question, answer
from zombiescope.fleet.reading import Fleet

LONGEST = 3600 * 4096  # seconds of one function in an hour, on more cores than any node has: what is more is no time
# In whole microseconds, so that the order of rows changes no digit. A node's first function always comes back: that it
# has no other is seen, and not that it was never profiled.
_SHARES = f"""
    WITH spent AS (SELECT node_id, function, sum((self_seconds * 1e6)::BIGINT)::DOUBLE AS own
                   FROM {{source}} SEMI JOIN _chosen USING (node_id)
                   WHERE self_seconds > 0 AND self_seconds <= {LONGEST} GROUP BY ALL),
    shared AS (SELECT node_id, function, own / sum(own) OVER (PARTITION BY node_id) AS share,
                   row_number() OVER (PARTITION BY node_id ORDER BY own DESC, function) AS place FROM spent)
    SELECT node_id, function, share FROM shared WHERE share >= """


def shares_of(fleet: Fleet, nodes: Any, least: float = 0.0) -> pa.Table:
    """node_id, function and share of each of these nodes that has samples; shares below `least` are left out."""
    query = f"{_SHARES}{float(least)} OR place = 1"
    chosen = pa.table({"node_id": pa.array(nodes, pa.uint64())})
    return answer(fleet, Question("functions", query, {"_chosen": chosen}, by_node=True))


def names_of(fleet: Fleet) -> dict[int, str]:
    rows = fleet.rows("SELECT function, any_value(name), any_value(module) FROM function_names GROUP BY 1")
    return {it[0]: harmless(f"{it[1]} [{it[2]}]" if it[2] else it[1] or "") for it in rows}
