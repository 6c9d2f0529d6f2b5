"""What a flame graph shows: a capture, which of its samples, and what to compare them with."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np

from zombiescope.core import harmless
from zombiescope.core.samples import Ints, Samples
from zombiescope.profile.chosen import EVERYTHING, Chosen
from zombiescope.profile.kernel_files import UNKNOWN
from zombiescope.profile.tree import KINDS, Flame, Node, Tree, planted

LONGEST_NAME = 8_000  # C++ templates have names of some thousand characters


class Compared(NamedTuple):
    """A frame, and the same in the baseline: unscaled, and 0 if there is no baseline."""

    node: Node
    before_own: int
    before_total: int


@dataclass(frozen=True, kw_only=True)
class Picture:
    """A flame graph, or the difference of two."""

    capture: Samples
    chosen: Chosen = EVERYTHING
    baseline: Chosen | None = None

    @cached_property
    def tree(self) -> Tree:
        return planted(self.capture)

    @cached_property
    def now(self) -> Flame:
        return self.tree.flame(self.chosen)

    @cached_property
    def before(self) -> Flame:
        """The baseline; empty if there is none."""
        if self.baseline is not None:
            return self.tree.flame(self.baseline)
        nothing = np.zeros(len(self.tree), np.int64)
        return Flame(self.tree, nothing, nothing)

    @property
    def scale(self) -> float:
        """What the baseline is multiplied by, so that both are of the same size."""
        return self.sum / self.sum_before if self.sum_before else 0.0

    @cached_property
    def rows(self) -> Ints:
        """The indices of the chosen samples."""
        return self.chosen.rows(self.capture)

    @cached_property
    def rows_before(self) -> Ints:
        """Those of the baseline; none if there is none."""
        return self.baseline.rows(self.capture) if self.baseline is not None else np.empty(0, np.int64)

    @cached_property
    def sum(self) -> int:
        """What all of them weigh: the total of the flame graph, for which no tree is needed."""
        return int(self.capture.weight[self.rows].sum())

    @cached_property
    def sum_before(self) -> int:
        return int(self.capture.weight[self.rows_before].sum())

    def __iter__(self) -> Iterator[Compared]:
        """Each frame that either has, its parent before it."""
        tree = self.tree
        kept = np.flatnonzero(self.now.total | self.before.total)
        place = np.full(len(tree) + 1, -1, np.int64)  # the last is the root's parent
        place[kept] = np.arange(len(kept))
        columns = (tree.label[kept], tree.depth[kept], place[tree.parent[kept]], self.now.own[kept])
        more = (self.now.total[kept], self.before.own[kept], self.before.total[kept])
        for label, depth, parent, own, total, was_own, was_total in zip(
            *(column.tolist() for column in (*columns, *more)), strict=True
        ):
            node = Node(tree.names[label], KINDS[tree.kinds[label]], tree.modules[label], depth, parent, own, total)
            yield Compared(node, was_own, was_total)


def shown(name: str) -> str:
    """A name that is safe in any text: no newline, escape sequence or odd byte, and never empty."""
    return harmless(name, most=LONGEST_NAME).strip() or UNKNOWN
