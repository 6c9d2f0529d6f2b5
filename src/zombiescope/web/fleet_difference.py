"""Two cohorts of nodes as one flame graph and its difference, and the functions that are ranked apart."""

from __future__ import annotations

from typing import Any

import numpy as np

from zombiescope.fleet.flame import flame, folded
from zombiescope.fleet.reading import Fleet
from zombiescope.profile.folded import parse
from zombiescope.profile.tree import planted
from zombiescope.web._columns import Columns
from zombiescope.web._finite import finite

MAGIC = b"zsflame1"
MOST_STACKS = 50_000  # those in which the cohorts differ most


def difference(fleet: Fleet, sick: str | None) -> bytes:
    found = flame(fleet, sick)
    stacks = found["stacks"][:MOST_STACKS]
    capture = parse([folded(found | {"stacks": stacks}).encode()], "stacks of two cohorts")
    tree = planted(capture)
    columns = Columns()
    columns.tree(tree)
    # The second of two columns is the sick nodes' time, in millionths of all of it.
    second = capture.at >= (capture.parted or 0)
    for name, rows in (("sick", second), ("others", ~second)):
        columns.numbers(name, np.bincount(tree.leaf[rows], capture.weight[rows], len(tree)).astype(np.int64))
    header: dict[str, Any] = {key: found[key] for key in ("sick", "others", "functions", "stacks_of")}
    header["left_out"] = len(found["stacks"]) - len(stacks)
    return columns.packed(MAGIC, finite(header))
