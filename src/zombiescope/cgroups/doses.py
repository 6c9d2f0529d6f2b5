"""Whether the dying cgroups match what is said to leave them: in number, or by rising together.

A run leaves one, or several (its own and its children's), and some are freed at once; others on the node come and go
meanwhile. So far more of them than runs acquit nobody: then both must rise together, part by part of the look.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zombiescope.core.timeline import Floats, Series

FEWEST = 0.5  # more dying for each time: some are freed at once
MOST = 2.0  # more dying for each time: with more than two both must rise together
PARTS = 4  # of the look
EVEN = 2.0  # by so much a part may differ from the average
ENOUGH = 8  # times: fewer say nothing of how evenly they came


def matches(times: float, left: float) -> bool:
    """About as many."""
    return times > 0 and FEWEST <= left / times <= MOST


def rise_together(happened: Callable[[Floats], Floats], dying: Series) -> float:
    """How many each time leaves, where that is so in every part of the look; else 0.

    `happened` gives how often it had happened until then.
    """
    if len(dying) <= PARTS:
        return 0.0
    edges = np.linspace(dying.at[0], dying.at[-1], PARTS + 1)
    times, left = np.diff(happened(edges)), np.diff(dying.sampled(edges))
    if not times.sum() >= ENOUGH or not left.sum() >= FEWEST * times.sum():
        return 0.0
    each = float(left.sum() / times.sum())
    even = (left >= each * times / EVEN) & (left <= each * times * EVEN)
    return each if even.all() else 0.0
