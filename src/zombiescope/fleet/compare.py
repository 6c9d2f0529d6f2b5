"""`fleet compare`: the causes that sick nodes share, in figures and in words, and what cannot be told."""

from __future__ import annotations

from typing import Any

import numpy as np

from zombiescope.fleet.causes import Candidate, search
from zombiescope.fleet.chance import Bools, counted, false_discoveries
from zombiescope.fleet.dose import Dose, doses
from zombiescope.fleet.factors import Factors, factors_of
from zombiescope.fleet.hot_functions import hot_functions
from zombiescope.fleet.reading import Fleet
from zombiescope.fleet.sickness import sickness

NAMED = 3  # nodes that are named as examples
SHOWN = 12  # factors that a cause explains away


def compare(fleet: Fleet, asked: str | None = None) -> dict[str, Any]:
    factors = factors_of(fleet)
    ill = sickness(fleet, factors.nodes, asked)
    known = ill.known
    names = [name for name, its in zip(factors.names, known, strict=True) if its]
    seen = Factors([node for node, its in zip(factors.nodes, known, strict=True) if its], names)
    for factor, having in zip(factors.factors, factors.having, strict=True):
        seen.add(factor, having[known])
    sick = ill.sick[known]
    dosed = doses(fleet)
    found = search(seen, sick, {unit: dose.t for unit, dose in dosed.items()})
    qs = false_discoveries(np.array([it.p for it in found.causes] or [1.0]), max(found.tested, 1))
    return {
        "sick": int(sick.sum()),
        "nodes": len(sick),
        "sick_means": ill.says,
        "causes": [_cause(one, sick, float(q), dosed) for one, q in zip(found.causes, qs, strict=False)],
        "cannot_tell": [_tie(group, sick, seen) for group in found.ties],
        "hot_functions": hot_functions(fleet, seen.nodes, sick),
        "blind": int((~known).sum()),
        "tested": found.tested,
        "left_out": factors.left_out,
    }


def _cause(one: Candidate, sick: Bools, q: float, dosed: dict[str, Dose]) -> dict[str, Any]:
    unit = one.name.removeprefix("unit:").rpartition("=")[0] if one.name.startswith("unit:") else ""
    shape = {
        "factor": one.name,
        **counted(one.having, sick),
        "p": one.p,
        "q": q,
        "dose": dosed[unit].says if unit in dosed else "",
        "explains_away": one.beats[:SHOWN],
    }
    return shape | {"says": _says(shape, int(sick.sum()), len(sick), int(one.having.sum()))}


def _says(cause: dict[str, Any], sick: int, nodes: int, having: int) -> str:
    with_it, without = cause["sick_with"], cause["sick_without"]
    share, rest = with_it / max(having, 1), without / max(nodes - having, 1)
    all_of = f"all {sick} sick nodes have" if not without else f"{with_it} of {sick} sick nodes have"
    low, best, high = cause["odds_ratio"]
    said = (
        f"{all_of} {cause['factor']}; {share:.0%} of the {having} nodes with it are sick, {rest:.1%} of the others "
        f"(odds ratio {best:,.0f}, 95 % interval {low:,.0f} to {high:,.0f})"
    )
    if cause["explains_away"]:
        verb = "is" if len(cause["explains_away"]) == 1 else "are"
        said += f"; {', '.join(cause['explains_away'][:4])} {verb} explained by it"
    return said + (f"; {cause['dose']}" if cause["dose"] else "")


def _tie(group: list[Candidate], sick: Bools, factors: Factors) -> dict[str, Any]:
    """Which node would tell: one that has the one and not the other."""
    first, second = group[0], group[1]
    apart = {
        f"{a.name} without {b.name}": np.flatnonzero(a.having & ~b.having)
        for a, b in ((first, second), (second, first))
    }
    said = []
    for what, nodes in apart.items():
        if len(nodes):
            some = ", ".join(factors.names[it] for it in nodes[:NAMED])
            ill = int(sick[nodes].sum())
            said.append(f"{len(nodes)} nodes have {what} ({ill} sick): too few; look at {some}")
        else:
            said.append(f"no node has {what}: make one, and watch whether it gets sick")
    return {"factors": [one.name for one in group], "would_tell": "; ".join(said)}
