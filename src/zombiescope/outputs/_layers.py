"""Put the boxes of a graph without circles into layers, causes above their effects, with few crossings.

Sugiyama's way, in small: the longest path gives a box its layer, an arrow that passes a layer gets a bend there, sweeps
by barycentre and swaps of neighbours order each layer, and every box then moves as near to the middle of those it is
joined with as the boxes beside it allow. The same graph always comes out the same.
"""

from __future__ import annotations

import graphlib
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise

WIDE = 6  # boxes side by side before one that may stand higher is put there
STRAIGHT = (1.0, 2.0, 8.0)  # how hard an arrow pulls that joins two boxes, a box and a bend, two bends: Graphviz's own
SWEEPS = 12  # up and down; of 30 boxes and 40 arrows the best order was found within 8
Point = tuple[float, float]
Arrow = tuple[str, str]
Node = Hashable  # a box by its name, or a bend: (cause, effect, layer)
Layers = list[list[Node]]


@dataclass(frozen=True, slots=True)
class Layout:
    """Where everything is: the middle of each box, the bends of each arrow that passes a layer, and the whole size."""

    boxes: dict[str, Point]
    bends: dict[Arrow, tuple[Point, ...]]
    width: float
    height: float


def lay_out(sizes: Mapping[str, Point], arrows: Sequence[Arrow], *, gap: float, drop: float) -> Layout:
    """`sizes` are width and height of each box; boxes stand `gap` apart, layers `drop`."""
    depth = _depths(list(sizes), arrows)
    bends = {arrow: [(*arrow, layer) for layer in range(depth[arrow[0]] + 1, depth[arrow[1]])] for arrow in arrows}
    steps: list[tuple[Node, Node]] = [
        step for arrow in arrows for step in pairwise([arrow[0], *bends[arrow], arrow[1]])
    ]
    layers: Layers = [[] for _ in range(max(depth.values(), default=-1) + 1)]
    for name in sizes:
        layers[depth[name]].append(name)
    for passing in bends.values():
        for bend in passing:
            layers[bend[2]].append(bend)
    layers = _ordered(layers, steps)
    widths: dict[Node, float] = {name: size[0] for name, size in sizes.items()}
    across = _across(layers, steps, widths, gap)
    tall = [max((sizes[node][1] for node in layer if isinstance(node, str)), default=0.0) for layer in layers]
    down = [sum(tall[:place]) + drop * place + tall[place] / 2 for place in range(len(layers))]
    return Layout(
        boxes={name: (across[name], down[depth[name]]) for name in sizes},
        bends={arrow: tuple((across[bend], down[bend[2]]) for bend in passing) for arrow, passing in bends.items()},
        width=max((x + widths.get(node, 0.0) / 2 for node, x in across.items()), default=0.0),
        height=sum(tall) + drop * max(len(tall) - 1, 0),
    )


def _depths(names: Sequence[str], arrows: Sequence[Arrow]) -> dict[str, int]:
    causes: dict[str, list[str]] = {name: [] for name in names}
    effects: dict[str, list[str]] = {name: [] for name in names}
    for cause, effect in arrows:
        causes[effect].append(cause)
        effects[cause].append(effect)
    depth: dict[str, int] = {}
    order = list(graphlib.TopologicalSorter(causes).static_order())
    for name in order:
        depth[name] = max((depth[cause] + 1 for cause in causes[name]), default=0)
    # A first cause belongs beside its effects, not at the top, and so does what has first causes only: they follow it.
    firsts = {name for name in names if not causes[name]}
    movable = [name for name in reversed(order) if effects[name] and firsts.issuperset(causes[name])]
    filled = Counter(depth[name] for name in names if name not in movable)
    for name in movable:
        deepest = min(depth[effect] for effect in effects[name]) - 1
        highest = 1 if causes[name] else 0
        depth[name] = next((it for it in range(deepest, highest - 1, -1) if filled[it] < WIDE), deepest)
        filled[depth[name]] += 1
    return depth


def _ordered(layers: Layers, steps: Sequence[tuple[Node, Node]]) -> Layers:
    """The best order met in a number of sweeps."""
    above, below = _neighbours(steps)
    best, fewest = layers, _crossings(layers, below)
    for sweep in range(SWEEPS * 2):
        layers = [list(layer) for layer in layers]
        downwards = sweep % 2 == 0
        for place in range(len(layers)) if downwards else range(len(layers) - 1, -1, -1):
            beside = place - 1 if downwards else place + 1
            if not 0 <= beside < len(layers):
                continue
            ranks = {node: rank for rank, node in enumerate(layers[beside])}
            joined = above if downwards else below
            ours = {node: float(rank) for rank, node in enumerate(layers[place])}
            middle = {node: _mean((ranks[it] for it in joined.get(node, ())), ours[node]) for node in layers[place]}
            layers[place].sort(key=lambda node: middle[node])
        _swap(layers, above, below)
        if (crossings := _crossings(layers, below)) < fewest:
            best, fewest = layers, crossings
    return best


def _swap(layers: Layers, above: Mapping[Node, list[Node]], below: Mapping[Node, list[Node]]) -> None:
    """Exchange neighbours wherever that leaves fewer crossings."""
    for place, layer in enumerate(layers):
        around = [
            ({node: rank for rank, node in enumerate(layers[beside])}, joined)
            for beside, joined in ((place - 1, above), (place + 1, below))
            if 0 <= beside < len(layers)
        ]
        for left in range(len(layer) - 1):
            one, other = layer[left], layer[left + 1]
            now, then = (
                sum(
                    ranks[mine] > ranks[theirs]
                    for ranks, joined in around
                    for mine in joined.get(first, ())
                    for theirs in joined.get(second, ())
                )
                for first, second in ((one, other), (other, one))
            )
            if then < now:
                layer[left], layer[left + 1] = other, one


def _crossings(layers: Layers, below: Mapping[Node, list[Node]]) -> int:
    crossings = 0
    for upper, lower in pairwise(layers):
        ranks = {node: rank for rank, node in enumerate(lower)}
        ends = [(rank, ranks[effect]) for rank, node in enumerate(upper) for effect in below.get(node, ())]
        crossings += sum((a[0] - b[0]) * (a[1] - b[1]) < 0 for a, b in combinations(ends, 2))
    return crossings


def _across(
    layers: Layers, steps: Sequence[tuple[Node, Node]], widths: Mapping[Node, float], gap: float
) -> dict[Node, float]:
    """The middle of each box and bend from left to right, the leftmost at the edge."""
    above, below = _neighbours(steps)
    across: dict[Node, float] = {}
    for layer in layers:
        across |= zip(layer, _apart([(0.0, 1.0)] * len(layer), layer, widths, gap), strict=True)
    for sweep in range(SWEEPS * 4):
        for layer in layers if sweep % 2 == 0 else reversed(layers):
            wanted = [_wanted(node, [*above.get(node, ()), *below.get(node, ())], across) for node in layer]
            across |= zip(layer, _apart(wanted, layer, widths, gap), strict=True)
    edge = min((across[node] - widths.get(node, 0.0) / 2 for node in across), default=0.0)
    return {node: x - edge for node, x in across.items()}


def _wanted(node: Node, joined: Sequence[Node], across: Mapping[Node, float]) -> tuple[float, float]:
    """Where a box or bend would like to be, and how much: long arrows are kept straight, so bends pull harder."""
    if not joined:
        return across[node], 1.0
    pulls = [STRAIGHT[(not isinstance(node, str)) + (not isinstance(it, str))] for it in joined]
    return sum(across[it] * pull for it, pull in zip(joined, pulls, strict=True)) / sum(pulls), sum(pulls)


def _apart(
    wanted: Sequence[tuple[float, float]], layer: Sequence[Node], widths: Mapping[Node, float], gap: float
) -> list[float]:
    """The places nearest to the wanted ones (weighted least squares) that keep the order and the distance.

    Less the distance itself it is the nearest rising sequence: pool adjacent violators.
    """
    room = [0.0]
    for one, other in pairwise(layer):
        room.append(room[-1] + (widths.get(one, 0.0) + widths.get(other, 0.0)) / 2 + gap)
    pools: list[tuple[float, float, int]] = []  # mean, weight, members
    for (want, weight), space in zip(wanted, room, strict=True):
        mean, members = want - space, 1
        while pools and pools[-1][0] >= mean:
            other_mean, other_weight, others = pools.pop()
            mean = (mean * weight + other_mean * other_weight) / (weight + other_weight)
            weight, members = weight + other_weight, members + others
        pools.append((mean, weight, members))
    flat = [mean for mean, _, members in pools for _ in range(members)]
    return [mean + space for mean, space in zip(flat, room, strict=True)]


def _neighbours(steps: Sequence[tuple[Node, Node]]) -> tuple[dict[Node, list[Node]], dict[Node, list[Node]]]:
    above: dict[Node, list[Node]] = {}
    below: dict[Node, list[Node]] = {}
    for cause, effect in steps:
        above.setdefault(effect, []).append(cause)
        below.setdefault(cause, []).append(effect)
    return above, below


def _mean(values: Iterable[float], otherwise: float) -> float:
    found = list(values)
    return sum(found) / len(found) if found else otherwise
