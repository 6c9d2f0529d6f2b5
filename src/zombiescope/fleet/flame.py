"""`fleet flame`: functions and stacks in which one cohort of nodes spends more of its time than another.

Functions are ranked on what every node has summed up itself, by ranks over nodes: one odd node decides nothing. Whole
stacks, which are fifty times dearer to read, are compared for a sample of both cohorts that is alike in image and type.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from zombiescope.core import UserError, harmless
from zombiescope.fleet.chance import Bools, Floats, normal_tail
from zombiescope.fleet.factors import factors_of
from zombiescope.fleet.features import make_features
from zombiescope.fleet.function_shares import names_of, shares_of
from zombiescope.fleet.partial_sums import Question, answer
from zombiescope.fleet.reading import Fleet
from zombiescope.fleet.sickness import sickness

MOST = 2_000  # nodes of a cohort whose functions are ranked
SAMPLE = 100  # nodes of a cohort whose stacks are read
SHOWN = 20
LEAST = 0.001  # of a node's time: less is no difference worth naming
ALPHA = 0.01  # over all functions
ELSEWHERE = ("functions", "metrics", "samples")  # tables that an engine's own nodes read: none is needed here
LONGEST = 600 * 4096  # seconds of one stack in ten minutes, on more cores than any node has: what is more is no time
# In whole microseconds: sums of parts are then the same in whatever order they are added.
SPENT = f"""
    SELECT cohort, comm, stack, sum((seconds * 1e6)::BIGINT)::DOUBLE AS micro
    FROM {{source}} JOIN _cohort USING (node_id) WHERE seconds > 0 AND seconds <= {LONGEST} GROUP BY ALL"""
_DIFFERENCE = """
    WITH spent AS (SELECT cohort, comm, stack, sum(micro) AS own FROM _spent GROUP BY ALL),
    whole AS (SELECT cohort, sum(own) AS all_of FROM spent GROUP BY 1)
    SELECT comm, s.stack, coalesce(sum(own / all_of) FILTER (cohort = 0), 0) AS sick,
        coalesce(sum(own / all_of) FILTER (cohort = 1), 0) AS others
    FROM spent s JOIN whole USING (cohort) GROUP BY ALL ORDER BY abs(sick - others) DESC, comm, s.stack"""


def flame(fleet: Fleet, asked: str | None = None, against: str | None = None) -> dict[str, Any]:
    nodes = factors_of(fleet)
    ill = sickness(fleet, nodes.nodes, asked)
    other = ill.known & ~ill.sick
    if against is not None:
        make_features(fleet)
        chosen = {it[0] for it in fleet.rows(f"SELECT node_id FROM node_features WHERE {against}")}
        other = np.array([node in chosen for node in nodes.nodes], np.bool_) & ~ill.sick
    ids = np.array(nodes.nodes, np.uint64)
    if not ill.sick.any() or not other.any():
        raise UserError(
            f"nothing to compare: {int(ill.sick.sum())} nodes in one cohort, {int(other.sum())} in the other"
        )
    functions = _functions(fleet, _some(ids, ill.sick, MOST), _some(ids, other, MOST))
    one, two = _matched(fleet, ids, ill.sick, other)
    return {
        "sick": int(ill.sick.sum()),
        "others": int(other.sum()),
        "functions": functions,
        "stacks_of": [len(one), len(two)],
        "stacks": _stacks(fleet, one, two),
    }


def _some(ids: Any, which: Bools, most: int) -> Any:
    found = ids[which]
    return found if len(found) <= most else np.random.default_rng(0).choice(found, most, replace=False)


def _functions(fleet: Fleet, one: Any, two: Any) -> list[dict[str, Any]]:
    """Share of each function in each node's time, compared by ranks (Mann and Whitney, ties counted)."""
    rows = shares_of(fleet, np.concatenate([one, two]))
    if not rows.num_rows:
        return []
    nodes, of = np.unique(rows["node_id"].to_numpy(), return_inverse=True)
    functions, what = np.unique(rows["function"].to_numpy(), return_inverse=True)
    shares = np.zeros((len(nodes), len(functions)))
    shares[of, what] = rows["share"].to_numpy()
    sick = np.isin(nodes, one)
    if not sick.any() or sick.all():
        return []
    means = shares[sick].mean(axis=0), shares[~sick].mean(axis=0)
    worth = np.flatnonzero(means[0] - means[1] >= LEAST)
    names = names_of(fleet)
    found = []
    for place in worth[np.argsort(-(means[0] - means[1])[worth])][: 5 * SHOWN].tolist():
        p = _ranks(shares[:, place], sick) * len(functions)
        if p < ALPHA:
            found.append(
                {
                    "function": names.get(int(functions[place]), f"unknown {int(functions[place]):x}"),
                    "sick": round(float(means[0][place]), 4),
                    "others": round(float(means[1][place]), 4),
                    "p": min(1.0, p),
                }
            )
    return found[:SHOWN]


def _ranks(values: Floats, sick: Bools) -> float:
    order = np.argsort(values, kind="stable")
    ranked = values[order]
    first = np.append(True, ranked[1:] != ranked[:-1])
    group = np.cumsum(first) - 1
    counts = np.bincount(group)
    middle = np.cumsum(counts) - (counts - 1) / 2
    ranks = np.empty(len(values))
    ranks[order] = middle[group]
    a, b, n = int(sick.sum()), int((~sick).sum()), len(values)
    u = float(ranks[sick].sum()) - a * (a + 1) / 2
    spread = a * b / 12 * (n + 1 - float((counts**3 - counts).sum()) / (n * (n - 1)))
    return normal_tail((u - a * b / 2 - 0.5) / np.sqrt(spread)) if spread > 0 else 1.0


def _matched(fleet: Fleet, ids: Any, sick: Bools, other: Bools) -> tuple[Any, Any]:
    """A sample of the sick, and for each a node of the other cohort, of the same image and type where there is one."""
    alike = {
        node: key
        for node, *key in fleet.rows("SELECT node_id, coalesce(image, ''), coalesce(instance_type, '') FROM nodes")
    }
    one = _some(ids, sick, SAMPLE)
    left: dict[tuple[str, ...], list[int]] = {}
    for node in np.random.default_rng(0).permutation(ids[other]).tolist():
        left.setdefault(tuple(alike[node]), []).append(node)
    two = []
    for node in one.tolist():
        its = left.get(tuple(alike[node])) or max(left.values(), key=len)
        if its:
            two.append(its.pop())
    return one, np.array(two, np.uint64)


def _stacks(fleet: Fleet, one: Any, two: Any) -> list[dict[str, Any]]:
    """The whole sample, most different first; shares of all time of each cohort."""
    cohort = np.concatenate([np.zeros(len(one), np.int8), np.ones(len(two), np.int8)])
    cohorts = pa.table({"node_id": np.concatenate([one, two]), "cohort": cohort})
    fleet.connection.register("_spent", answer(fleet, Question("samples", SPENT, {"_cohort": cohorts})))
    rows = fleet.rows(_DIFFERENCE)
    names = names_of(fleet)
    frames = dict(fleet.rows("SELECT stack, any_value(functions) FROM stacks GROUP BY 1"))
    return [
        {
            "stack": ";".join([harmless(comm or ""), *(names.get(it, "unknown") for it in frames.get(stack) or [])]),
            "sick": round(sick, 6),
            "others": round(others, 6),
        }
        for comm, stack, sick, others in rows
    ]


def folded(found: dict[str, Any]) -> str:
    """As difffolded.pl writes it: stack, share of the others, share of the sick, in millionths."""
    return "".join(
        f"{it['stack'].replace(' ', '_')} {round(it['others'] * 1e6)} {round(it['sick'] * 1e6)}\n"
        for it in found["stacks"]
    )
