"""Which factors sick nodes have in common and healthy ones have not, with those that only come along taken out.

1. Every factor, and every pair of factors, is tested for enrichment among the sick; p is corrected for all of them.
2. What is left is compared two at a time: is A still enriched among nodes that are alike in B, and B among those alike
   in A? If only A is, A explains B away. If neither is, these nodes cannot tell which of the two it is. If both are,
   both may be causes.
3. The factor that explains the others is taken, and the rest is tested again among nodes that are alike in it.

A cause is thus never a factor whose enrichment another one accounts for, and a tie is said to be one.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from zombiescope.fleet.chance import Bools, Floats, Ints, log_likelihood, scores, strata
from zombiescope.fleet.factors import COLUMNS, STATES, Factors, family

ALPHA = 0.01  # of finding anything where nothing is, over all factors and pairs of one round
LASTS = 0.001  # p of a factor among nodes that are alike in another: below, the other does not explain it
CLEARER = 100.0  # how much smaller the winner's p is than the loser's
STRONG = 1.5  # odds ratio: what is less is true perhaps, but is not what makes these nodes sick
WEIGHED = 40  # factors that are compared two at a time, the strongest
PAIRS = 25  # pairs of factors that are compared, the strongest
ROUNDS = 4  # so many causes at most, and what they explain of each other is taken out again
_LOOSE = 3.5  # z from which a factor is worth an exact test; the corrected limit is beyond 4


@dataclass(slots=True)
class Candidate:
    name: str
    parts: tuple[int, ...]  # places of its factors
    having: Bools
    p: float
    gain: float
    beats: list[str] = field(default_factory=list)


@dataclass(slots=True)
class Outcome:
    causes: list[Candidate] = field(default_factory=list)
    ties: list[list[Candidate]] = field(default_factory=list)
    tested: int = 0


def search(factors: Factors, sick: Bools, doses: dict[str, float] | None = None) -> Outcome:
    """`doses`: units whose restarts go with growth on the same node, with the strength (t) of it: they break ties."""
    found = Outcome()
    of = np.zeros(len(sick), np.int64)
    if not factors.having or not sick.any() or sick.all():
        return found
    matrix = np.array(factors.having)
    taken: list[Candidate] = []
    for _ in range(ROUNDS):
        candidates, tested = _enriched(factors, matrix, sick, of)
        found.tested = max(found.tested, tested)
        if not candidates:
            break
        best, tied = _winner(candidates, sick, of)
        best, tied = _by_dose(best, tied, doses or {})
        if tied:
            found.ties.append([best, *tied])
        else:
            found.causes.append(best)
        taken.append(best)
        of = np.unique(of * 2 + best.having, return_inverse=True)[1].astype(np.int64)
    _prune(found, taken, sick)
    found.causes.sort(key=lambda one: -one.gain)
    return found


def _prune(found: Outcome, taken: list[Candidate], sick: Bools) -> None:
    """What was taken early may be explained by what was taken later: an image that brings two bad things is neither."""
    for one in sorted(taken, key=lambda it: it.gain):
        others = [it for it in taken if it is not one]
        of = np.zeros(len(sick), np.int64)
        for other in others:
            of = of * 2 + other.having
        if others and one in found.causes and strata(one.having, sick, of).p() > LASTS:
            found.causes.remove(one)
            taken.remove(one)
            heir = max(others, key=lambda it: int((it.having & one.having).sum()))
            heir.beats = list(dict.fromkeys([*heir.beats, one.name, *one.beats]))
            heir.beats = [it for it in heir.beats if it not in {other.name for other in taken}]


def _enriched(factors: Factors, matrix: Bools, sick: Bools, of: Ints) -> tuple[list[Candidate], int]:
    """Singles, and pairs that are more than either of their halves, that are enriched beyond chance here."""
    alone, joint = _screened(matrix, sick, of)
    first, second = np.triu_indices(len(matrix), 1)
    pair_scores = joint[first, second]
    tested = len(alone) + len(pair_scores)
    limit = ALPHA / tested
    singles = []
    for place in np.argsort(-alone)[:WEIGHED].tolist():
        if alone[place] < _LOOSE:
            break
        one = _candidate(factors.factors[place], (place,), matrix[place], sick, of, limit)
        singles += [one] if one else []
    pairs: list[Candidate] = []
    for place in np.argsort(-pair_scores)[: 4 * PAIRS].tolist():
        a, b = int(first[place]), int(second[place])
        if pair_scores[place] < max(_LOOSE, alone[a], alone[b]) or len(pairs) >= PAIRS:
            continue
        name = " & ".join(sorted((factors.factors[a], factors.factors[b])))
        one = _candidate(name, (a, b), matrix[a] & matrix[b], sick, of, limit)
        # A pair that is little more than one of its halves is that half, said less simply; thousands were tried.
        if one and all(_is_more(one.having, matrix[half], sick, of, limit) for half in (a, b)):
            pairs.append(one)
    return singles + pairs, tested


def _is_more(pair: Bools, half: Bools, sick: Bools, of: Ints, limit: float) -> bool:
    alone = strata(pair, sick, of * 2 + half).p()
    return alone < limit and strata(half, sick, of * 2 + pair).p() > alone * CLEARER


def _candidate(
    name: str, parts: tuple[int, ...], having: Bools, sick: Bools, of: Ints, limit: float
) -> Candidate | None:
    counted = strata(having, sick, of)
    p = counted.p()
    if p > limit or counted.odds_ratio()[0] < STRONG:
        return None
    return Candidate(name, parts, having, p, log_likelihood(having, sick))


def _screened(matrix: Bools, sick: Bools, of: Ints) -> tuple[Floats, Floats]:
    """Scores of every factor, and of every pair, over all strata: two products of matrices for each."""
    many = int(of.max(initial=0)) + 1
    size = len(matrix)
    alone: list[Any] = []
    alone_sick: list[Any] = []
    joint: Any = np.zeros((many, size, size))
    joint_sick: Any = np.zeros((many, size, size))
    nodes, ill = np.bincount(of, minlength=many), np.bincount(of[sick], minlength=many)
    for stratum in range(many):
        here = of == stratum
        part = matrix[:, here].astype(np.float32)
        part_sick = matrix[:, here & sick].astype(np.float32)
        alone.append(part.sum(axis=1))
        alone_sick.append(part_sick.sum(axis=1))
        joint[stratum], joint_sick[stratum] = part @ part.T, part_sick @ part_sick.T
    single = scores(nodes, np.array(alone).T, ill, np.array(alone_sick).T)
    return single, scores(nodes, np.moveaxis(joint, 0, -1), ill, np.moveaxis(joint_sick, 0, -1))


def duel(a: Bools, b: Bools, sick: Bools, of: Ints) -> int:
    """1: a explains b away; -1: b explains a; 2: both count; 0: these nodes cannot tell."""
    p_a = strata(a, sick, of * 2 + b).p()
    p_b = strata(b, sick, of * 2 + a).p()
    if p_a < LASTS and p_b < LASTS:
        return 2
    if p_a < LASTS and p_b > p_a * CLEARER:
        return 1
    if p_b < LASTS and p_a > p_b * CLEARER:
        return -1
    return 0


def _winner(candidates: list[Candidate], sick: Bools, of: Ints) -> tuple[Candidate, list[Candidate]]:
    """Who explains most of the others and is explained by none; and those that cannot be told from it."""
    results = {
        (a.name, b.name): duel(a.having, b.having, sick, of)
        for place, a in enumerate(candidates)
        for b in candidates[place + 1 :]
    }

    def result(a: Candidate, b: Candidate) -> int:
        if (a.name, b.name) in results:
            return results[a.name, b.name]
        other = results[b.name, a.name]
        return other if other in (0, 2) else -other

    def rank(one: Candidate) -> tuple[float, ...]:
        against = [result(one, other) for other in candidates if other is not one]
        return (-against.count(-1), len(one.parts) == 1, _state(one), one.gain)

    fewest = max(rank(one)[0] for one in candidates)
    leaders = [one for one in candidates if rank(one)[0] == fewest]
    best = max(leaders, key=lambda one: (one.gain, rank(one)))
    # Of one unit the plainer state is named if these nodes cannot tell it from the better one.
    alike = [
        one for one in leaders if family(one.name) == family(best.name) and (one is best or result(best, one) == 0)
    ]
    best = max(alike, key=_state)
    beaten = [one for one in candidates if one is not best and len(one.parts) == 1 and result(best, one) == 1]
    beaten += [one for one in alike if one is not best and one not in beaten]
    best.beats = [one.name for one in sorted(beaten, key=lambda one: (_place(one, best), -one.gain))]
    tied = [
        one
        for one in candidates
        if one is not best and result(best, one) == 0 and family(one.name) != family(best.name) and one in leaders
    ]
    singles = [one for one in tied if len(one.parts) == 1]
    return best, singles if len(best.parts) == 1 else tied


def _place(one: Candidate, best: Candidate) -> int:
    """What people would suspect comes first: where a node is and what it runs on; a unit's other states last."""
    if one.name.startswith("unit:"):
        return 3 if family(one.name) == family(best.name) else 2
    return 0 if one.name.partition("=")[0] in COLUMNS else 1


def _state(one: Candidate) -> int:
    """Of a unit's states the one that says most: active before restarting before enabled."""
    state = one.name.rpartition("=")[2]
    return len(STATES) - STATES.index(state) if one.name.startswith("unit:") and state in STATES else 0


def _by_dose(best: Candidate, tied: list[Candidate], doses: dict[str, float]) -> tuple[Candidate, list[Candidate]]:
    """A unit whose every restart leaves something behind on its own node is the cause, whatever comes along with it."""
    if not tied:
        return best, tied
    every = [best, *tied]
    strong = [
        one for one in every if any(one.name.startswith(f"unit:{unit}=") for unit in doses) and len(one.parts) == 1
    ]
    units = {family(one.name) for one in strong}
    if len(units) != 1:
        return best, tied
    chosen = max(strong, key=_state)
    chosen.beats = list(dict.fromkeys([*chosen.beats, *(one.name for one in every if one is not chosen)]))
    return chosen, []
