"""Exact tests of tables of counts, in strata, and intervals of odds ratios, from logarithms of factorials.

A stratified test asks whether a factor still goes with sickness among nodes that are alike in something else. Given the
margins of each stratum, the number of sick nodes with the factor is hypergeometric; the sum over strata is their
convolution. So p is exact however few nodes a stratum has: the Cochran-Mantel-Haenszel test, not approximated.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, log, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt

Bools = npt.NDArray[np.bool_]
Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]

Z95 = 1.959964  # of a 95 % interval
EXACT = 4_000  # sick nodes in a stratum up to which p is exact; beyond, the normal approximation is as good
SMALLEST = 1e-300  # p, so that it can be written


class LogFactorials:
    """Grows when it is asked for more."""

    def __init__(self) -> None:
        self._sums = np.zeros(1)

    def upto(self, most: int) -> Floats:
        if len(self._sums) <= most:
            size = max(most + 1, 2 * len(self._sums))
            self._sums = np.append(0.0, np.cumsum(np.log(np.arange(1, size))))
        return self._sums


_LOGS = LogFactorials()


def hypergeometric(nodes: int, having: int, sick: int) -> tuple[int, Floats]:
    """Probabilities of each number of sick nodes that have the factor, from the smallest possible number on."""
    low, high = max(0, having + sick - nodes), min(having, sick)
    both = np.arange(low, high + 1)
    log_of = _LOGS.upto(nodes)
    logs = (
        log_of[having]
        - log_of[both]
        - log_of[having - both]
        + log_of[nodes - having]
        - log_of[sick - both]
        - log_of[nodes - having - sick + both]
        - (log_of[nodes] - log_of[sick] - log_of[nodes - sick])
    )
    found: Floats = np.exp(logs)
    return low, found


@dataclass(frozen=True, slots=True)
class Strata:
    """Counts of one factor in each stratum."""

    nodes: Ints
    having: Ints
    sick: Ints
    both: Ints  # sick and having

    @property
    def z(self) -> float:
        """Mantel and Haenszel's statistic: how many standard deviations more sick nodes have it than by chance."""
        return float(scores(self.nodes, self.having, self.sick, self.both)[()])

    def p(self) -> float:
        """One-sided: so many or more sick nodes with the factor, if it did not matter."""
        if int(self.sick.max(initial=0)) > EXACT:
            return max(normal_tail(self.z), SMALLEST)
        low, chances = 0, np.ones(1)
        for nodes, having, sick in zip(self.nodes.tolist(), self.having.tolist(), self.sick.tolist(), strict=True):
            if nodes and having and sick and having < nodes and sick < nodes:
                least, own = hypergeometric(nodes, having, sick)
                low, chances = low + least, np.convolve(chances, own)
            else:
                low += sick if having == nodes else having if sick == nodes else 0
        over = int(self.both.sum()) - low
        return min(1.0, max(float(chances[max(over, 0) :].sum()), SMALLEST))

    def odds_ratio(self) -> tuple[float, float, float]:
        """Mantel and Haenszel's, with Robins, Breslow and Greenland's interval; half a node is added to empty cells."""
        a = self.both.astype(float)
        b = self.sick - a
        c = self.having - a
        d = self.nodes - self.having - b
        if not (a * d).sum() or not (b * c).sum():
            more = 0.5 * ((self.having > 0) & (self.having < self.nodes) & (self.sick > 0) & (self.sick < self.nodes))
            a, b, c, d = (it + more for it in (a, b, c, d))
        whole = np.maximum(a + b + c + d, 1e-9)
        p, q, r, s = (a + d) / whole, (b + c) / whole, a * d / whole, b * c / whole
        top, low = float(r.sum()), float(s.sum())
        if not top or not low:
            return 0.0, 1.0, float("inf")
        spread = sqrt(
            float((p * r).sum()) / (2 * top * top)
            + float((p * s + q * r).sum()) / (2 * top * low)
            + float((q * s).sum()) / (2 * low * low)
        )
        best = log(top / low)
        return exp(best - Z95 * spread), exp(best), exp(min(best + Z95 * spread, 700.0))


def strata(having: Bools, sick: Bools, of: Ints) -> Strata:
    """Count one factor; `of` numbers the stratum of each node."""
    many = int(of.max(initial=0)) + 1
    return Strata(
        np.bincount(of, minlength=many),
        np.bincount(of[having], minlength=many),
        np.bincount(of[sick], minlength=many),
        np.bincount(of[having & sick], minlength=many),
    )


def counted(having: Bools, sick: Bools) -> dict[str, Any]:
    """One factor over all nodes, as answers show it."""
    both = int((having & sick).sum())
    ratio = strata(having, sick, np.zeros(len(sick), np.int64)).odds_ratio()
    return {
        "sick_with": both,
        "sick_without": int(sick.sum()) - both,
        "healthy_with": int(having.sum()) - both,
        "odds_ratio": [round(it, 2) for it in ratio],
    }


def scores(nodes: Ints, having: Ints, sick: Ints, both: Ints) -> Floats:
    """Mantel and Haenszel's statistic over the last axis; `having` and `both` may hold many factors at once."""
    whole = np.maximum(nodes, 1)
    expected = having * sick / whole
    spread = having * (nodes - having) * (sick * (nodes - sick)) / (whole * whole * np.maximum(nodes - 1, 1.0))
    spread = np.where(nodes > 1, spread, 0.0)
    total = spread.sum(axis=-1)
    found: Floats = np.where(total > 0, (both - expected).sum(axis=-1) / np.sqrt(np.maximum(total, 1e-300)), 0.0)
    return found


def normal_tail(z: float) -> float:
    from math import erfc

    return 0.5 * erfc(z / sqrt(2))


def false_discoveries(ps: Floats, tested: int) -> Floats:
    """Benjamini and Hochberg's q of each p, when `tested` were tested in all (those left out count as 1)."""
    order = np.argsort(ps)
    ranked = ps[order] * tested / np.arange(1, len(ps) + 1)
    found = np.empty(len(ps))
    found[order] = np.minimum(np.minimum.accumulate(ranked[::-1])[::-1], 1.0)
    return found


def log_likelihood(having: Bools, sick: Bools) -> float:
    """How much better sickness is predicted with the factor than without, in natural units: for ranking."""

    def entropy(part: float, whole: float) -> float:
        if not whole or part in (0, whole):
            return 0.0
        share = part / whole
        return -whole * (share * log(share) + (1 - share) * log(1 - share))

    a, n1, s, n = float((having & sick).sum()), float(having.sum()), float(sick.sum()), float(len(sick))
    return entropy(s, n) - entropy(a, n1) - entropy(s - a, n - n1)
