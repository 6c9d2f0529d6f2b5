"""Functions in which sick nodes spend much of their time and healthy ones do not: what happens on them, not why.

A hot function comes of whatever makes a node sick, and follows sickness more closely than its cause does. So it is
tested as other factors are, and reported beside the causes: it explains none of them away, and none is tied with it.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zombiescope.fleet.causes import ALPHA, STRONG
from zombiescope.fleet.chance import Bools, counted, strata
from zombiescope.fleet.factors import FEWEST
from zombiescope.fleet.function_shares import names_of, shares_of
from zombiescope.fleet.reading import Fleet

HOT = 0.05  # of a node's busy time: of 96 cores that work, almost five
SHOWN = 5


def hot_functions(fleet: Fleet, nodes: list[int], sick: Bools) -> list[dict[str, Any]]:
    """Most likely first. Nodes that sent no samples are neither hot nor cold: they are left out."""
    ids = np.array(nodes, np.uint64)  # sorted
    rows = shares_of(fleet, ids, HOT)
    profiled, of = np.unique(rows["node_id"].to_numpy(), return_inverse=True)
    ill = sick[np.searchsorted(ids, profiled)]
    if not ill.any() or ill.all():
        return []
    functions, which = np.unique(rows["function"].to_numpy(), return_inverse=True)
    hot = np.zeros((len(functions), len(profiled)), np.bool_)
    hot[which, of] = rows["share"].to_numpy() >= HOT
    counts = hot.sum(axis=1)
    tested = np.flatnonzero((counts >= FEWEST) & (counts <= len(profiled) - FEWEST))
    alike = np.zeros(len(profiled), np.int64)
    found = []
    for place in tested.tolist():
        p = strata(hot[place], ill, alike).p()
        figures = counted(hot[place], ill)
        if p * len(tested) < ALPHA and figures["odds_ratio"][0] >= STRONG:
            found.append((p, -figures["sick_with"], int(functions[place]), figures))
    names = names_of(fleet) if found else {}
    return [
        _shown(names.get(function, f"unknown {function:x}"), p, figures, len(profiled), int(ill.sum()))
        for p, _, function, figures in sorted(found, key=lambda it: it[:3])[:SHOWN]
    ]


def _shown(name: str, p: float, figures: dict[str, Any], nodes: int, sick: int) -> dict[str, Any]:
    low, best, high = figures["odds_ratio"]
    says = (
        f"{figures['sick_with']} of {sick} sick nodes spend {HOT:.0%} or more of their time in {name}, "
        f"{figures['healthy_with']} of the {nodes - sick} others (odds ratio {best:,.0f}, 95 % interval {low:,.0f} to "
        f"{high:,.0f})"
    )
    return {"factor": f"function:{name}=hot", **figures, "p": p, "says": says}
