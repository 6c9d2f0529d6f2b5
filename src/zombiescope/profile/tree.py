"""One tree over all distinct stacks of a capture: any choice of samples becomes a flame graph by two sums.

Nodes are in the order in which a flame graph is drawn (a parent, then its children by name, each with all below it),
so the total of a node is the sum over a range of nodes: a difference of two running sums.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from zombiescope.core.samples import Frames, Ints, Samples
from zombiescope.profile.chosen import EVERYTHING, Chosen
from zombiescope.profile.repeats import distinct

KINDS = ("root", "process", "user", "kernel")


class Node(NamedTuple):
    """A frame of a flame graph."""

    name: str
    kind: str  # one of KINDS
    module: str
    depth: int
    parent: int  # its place in the same flame graph; -1 for the root
    own: int  # self weight
    total: int  # self weight and that of all it called


@dataclass(frozen=True, slots=True, eq=False)
class Tree:
    """All stacks of a capture below the names of their processes, below one root at place 0."""

    capture: Samples
    names: Sequence[str]  # by label
    kinds: npt.NDArray[np.uint8]  # by label: places in KINDS
    modules: Sequence[str]  # by label
    label: Ints  # of each node
    parent: Ints  # of each node; -1 for the root
    depth: Ints  # of each node; the root's is 0
    after: Ints  # of each node: the first node that is not below it
    leaf: Ints  # of each sample: the node of its innermost frame

    def __len__(self) -> int:
        return len(self.label)

    def own(self, chosen: Chosen = EVERYTHING) -> Ints:
        """For each node, its self weight from the chosen samples."""
        rows = chosen.rows(self.capture)
        # Sums of integers in floats are exact up to 2^53: a hundred days of nanoseconds.
        weights = self.capture.weight[rows] if self.capture.unit != "samples" or _uneven(self.capture) else None
        found: Ints = np.bincount(self.leaf[rows], weights, len(self)).astype(np.int64)
        return found

    def total(self, own: Ints) -> Ints:
        """For each node, the weight in it and below it."""
        running = np.concatenate(([0], np.cumsum(own)))
        found: Ints = running[self.after] - running[:-1]
        return found

    def flame(self, chosen: Chosen = EVERYTHING) -> Flame:
        own = self.own(chosen)
        return Flame(self, own, self.total(own))

    def difference(self, chosen: Chosen, baseline: Chosen) -> Difference:
        return Difference(self.flame(chosen), self.flame(baseline))


@dataclass(frozen=True, slots=True, eq=False)
class Flame:
    """A flame graph: for each node of the tree its self and total weight."""

    tree: Tree
    own: Ints
    total: Ints

    @property
    def all(self) -> int:
        return int(self.total[0])

    def nodes(self) -> Ints:
        """The tree indices of the nodes with any weight."""
        found: Ints = np.flatnonzero(self.total)
        return found

    def __iter__(self) -> Iterator[Node]:
        """Each frame, its parent before it."""
        tree, kept = self.tree, self.nodes()
        place = np.full(len(tree) + 1, -1, np.int64)  # the last is the root's parent
        place[kept] = np.arange(len(kept))
        columns = (tree.label[kept], tree.depth[kept], place[tree.parent[kept]], self.own[kept], self.total[kept])
        for label, depth, parent, own, total in zip(*(column.tolist() for column in columns), strict=True):
            yield Node(tree.names[label], KINDS[tree.kinds[label]], tree.modules[label], depth, parent, own, total)


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """Two flame graphs of one tree: every node has a difference, also those that only one of them has."""

    now: Flame
    before: Flame

    @property
    def scale(self) -> float:
        """What the baseline is multiplied by, so that both are of the same size."""
        return self.now.all / self.before.all if self.before.all else 0.0

    def nodes(self) -> Ints:
        found: Ints = np.flatnonzero(self.now.total | self.before.total)
        return found

    def own(self) -> npt.NDArray[np.float64]:
        """By how much each node's self weight rose, in units of the first flame graph."""
        return self.now.own - self.before.own * self.scale

    def total(self) -> npt.NDArray[np.float64]:
        return self.now.total - self.before.total * self.scale


def planted(capture: Samples) -> Tree:
    """The tree of a capture. Names are resolved here, if not yet done."""
    frames = capture.frames
    comms = sorted({who.comm for who in capture.whos})
    names, kinds, modules, label_of = _labels(frames, comms)
    by_comm = {comm: place for place, comm in enumerate(comms)}
    comm_of = np.fromiter((by_comm[who.comm] for who in capture.whos), np.int64, len(capture.whos))
    # A leaf is a thread's name and a stack; samples are many, these pairs are few.
    pairs, pair_of = np.unique(comm_of[capture.who] * len(frames) + capture.stack, return_inverse=True)
    comm, stack = pairs // max(len(frames), 1), pairs % max(len(frames), 1)
    label, parent, depth, node_of = _grown(comm + 1, stack, frames, label_of)
    order, after = _drawn(parent, depth)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    parents = parent[order]
    return Tree(
        capture=capture,
        names=names,
        kinds=kinds,
        modules=modules,
        label=label[order],
        parent=np.where(parents < 0, -1, place[parents]),
        depth=depth[order],
        after=after,
        leaf=place[node_of][pair_of.ravel()],
    )


def _labels(
    frames: Frames, comms: Sequence[str]
) -> tuple[list[str], npt.NDArray[np.uint8], list[str], npt.NDArray[np.int64]]:
    """Every name a node can have, in order: the root's, the processes', then functions by name."""
    by_name = sorted(range(len(frames.functions)), key=lambda place: frames.functions[place])
    functions = [frames.functions[place] for place in by_name]
    label_of = np.empty(len(functions), np.int64)
    label_of[by_name] = np.arange(len(functions)) + 1 + len(comms)
    names = ["all", *comms, *(it.name for it in functions)]
    kinds = np.array([0, *(1 for _ in comms), *(3 if it.kernel else 2 for it in functions)], np.uint8)
    return names, kinds, ["", *("" for _ in comms), *(it.module for it in functions)], label_of


def _grown(comm: Ints, stack: Ints, frames: Frames, label_of: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    """Nodes level by level: below each one, another for each label found next. And the node that each pair ends in."""
    labels, parents, depths = [np.zeros(1, np.int64)], [np.full(1, -1)], [np.zeros(1, np.int64)]
    at = np.zeros(len(comm), np.int64)  # the node each pair has come to
    going, count, level = np.arange(len(comm)), 1, 0
    starts, lengths = frames.starts[stack], np.diff(frames.starts)[stack]
    kinds = int(label_of.max(initial=0)) + 1 + int(comm.max(initial=0))
    while len(going):
        found = comm[going] if level == 0 else label_of[frames.of[starts[going] + level - 1]]
        once, which = distinct(at[going] * kinds + found)
        at[going] = count + which
        labels.append(once % kinds)
        parents.append(once // kinds)
        depths.append(np.full(len(once), level + 1))
        count += len(once)
        going = going[lengths[going] > level]
        level += 1
    return np.concatenate(labels), np.concatenate(parents), np.concatenate(depths), at


def _drawn(parent: Ints, depth: Ints) -> tuple[Ints, Ints]:
    """The order in which a flame graph is drawn, and for each node so ordered the first one that is not below it."""
    size = np.ones(len(parent), np.int64)
    edges = np.searchsorted(depth, np.arange(int(depth[-1]) + 2))  # nodes stand level by level
    levels = [slice(edges[level], edges[level + 1]) for level in range(len(edges) - 1)]
    for level in reversed(levels[1:]):
        np.add.at(size, parent[level], size[level])
    first = np.zeros(len(parent), np.int64)
    for level in levels[1:]:
        # Siblings stand together and in order: each begins where those before it end.
        before = np.cumsum(size[level]) - size[level]
        eldest = np.searchsorted(parent[level], parent[level])
        first[level] = first[parent[level]] + 1 + before - before[eldest]
    order = np.argsort(first)
    return order, (first + size)[order]


def _uneven(capture: Samples) -> bool:
    return bool(len(capture)) and bool((capture.weight != 1).any())
