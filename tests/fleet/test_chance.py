"""Exact tests against counting by hand, and intervals that hold the truth as often as they say."""

from __future__ import annotations

from itertools import combinations
from math import comb

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.fleet import chance
from zombiescope.fleet.chance import Strata, false_discoveries, hypergeometric, log_likelihood, strata


@given(st.integers(2, 40), st.data())
def test_hypergeometric_is_what_counting_gives(nodes: int, data: st.DataObject) -> None:
    having, sick = data.draw(st.integers(0, nodes)), data.draw(st.integers(0, nodes))
    low, chances = hypergeometric(nodes, having, sick)
    for place, found in enumerate(chances.tolist()):
        both = low + place
        expected = comb(having, both) * comb(nodes - having, sick - both) / comb(nodes, sick)
        assert found == pytest.approx(expected, rel=1e-9)
    assert chances.sum() == pytest.approx(1.0)


def test_a_stratified_p_is_what_all_arrangements_give() -> None:
    """Two strata, every way in which the sick could have fallen on their nodes."""
    having = np.array([1, 1, 0, 0, 0, 1, 1, 0], np.bool_)
    sick = np.array([1, 1, 0, 0, 1, 1, 0, 0], np.bool_)
    of = np.array([0, 0, 0, 0, 0, 1, 1, 1])
    seen = int((having & sick).sum())
    total = more = 0
    for first in combinations(range(5), 3):
        for second in combinations(range(5, 8), 1):
            total += 1
            more += int(having[[*first, *second]].sum()) >= seen
    assert strata(having, sick, of).p() == pytest.approx(more / total)


def test_a_stratum_without_choice_says_nothing() -> None:
    """Where all nodes have it, or none, the factor cannot be judged."""
    having, sick = np.array([1, 1, 0, 0], np.bool_), np.array([1, 1, 0, 0], np.bool_)
    assert strata(having, sick, np.array([0, 0, 1, 1])).p() == 1.0


def test_p_beyond_the_exact_range_agrees_with_the_exact_one(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = Strata(*(np.array([it]) for it in (20_000, 2_000, 3_900, 440)))
    exact = counted.p()
    monkeypatch.setattr(chance, "EXACT", 10)
    assert counted.p() != exact
    assert counted.p() == pytest.approx(exact, rel=0.25)


def test_the_interval_holds_the_true_odds_ratio() -> None:
    draw, held = np.random.default_rng(3), 0
    for _ in range(400):
        of = draw.integers(0, 2, 600)
        having = draw.random(600) < np.where(of == 1, 0.6, 0.2)
        odds = np.where(of == 1, 0.2, 0.05) * np.where(having, 4.0, 1.0)
        low, _, high = strata(having, draw.random(600) < odds / (1 + odds), of).odds_ratio()
        held += low <= 4.0 <= high
    assert 0.91 <= held / 400 <= 0.985


def test_empty_cells_have_an_interval_too() -> None:
    low, best, high = Strata(*(np.array([it]) for it in (100, 10, 10, 10))).odds_ratio()
    assert 1 < low < best < high < float("inf")


def test_false_discoveries_count_all_that_were_tested() -> None:
    qs = false_discoveries(np.array([0.001, 0.02, 0.5]), 10)
    assert qs.tolist() == pytest.approx([0.01, 0.1, 1.0])
    assert (false_discoveries(np.array([0.5, 0.001]), 2) == [0.5, 0.002]).all()


def test_a_factor_that_predicts_gains() -> None:
    sick = np.array([1, 1, 0, 0, 0, 0], np.bool_)
    assert log_likelihood(sick, sick) > log_likelihood(~sick & (np.arange(6) < 4), sick) > 0
    assert log_likelihood(np.ones(6, np.bool_), sick) == pytest.approx(0)
