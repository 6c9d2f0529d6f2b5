"""Distinct values without sorting all of them: the same as np.unique, also where many share a place in the table."""

from __future__ import annotations

import numpy as np
import pytest

from zombiescope.profile.repeats import distinct, first_of_each, sums_of_rows


@pytest.mark.parametrize(("rows", "kinds"), [(0, 1), (1, 1), (50, 7), (5_000, 3), (60_000, 900), (60_000, 50_000)])
def test_as_np_unique(rows: int, kinds: int) -> None:
    chance = np.random.default_rng(rows + kinds)
    pool = chance.integers(0, (1 << 64) - 1, kinds, np.uint64)
    values = pool[chance.integers(0, kinds, rows)]
    found, which = distinct(values)
    known, inverse = np.unique(values, return_inverse=True)
    assert found.tolist() == known.tolist() and which.tolist() == inverse.reshape(-1).tolist()
    signed = values.astype(np.int64)
    assert distinct(signed)[0].tolist() == np.unique(signed).tolist()
    others = chance.integers(0, 5, rows)
    first, which = first_of_each(values, others)
    assert (values[first][which] == values).all() and (others[first][which] == others).all()
    assert len(first) == len(set(zip(values.tolist(), others.tolist(), strict=True)))


def test_many_values_of_one_place_in_the_table_are_still_told_apart() -> None:
    """Millions of distinct values do not fit into the table: most share their places with others, turn after turn."""
    values = np.arange(3_000_000, dtype=np.int64) * 4096
    first, which = first_of_each(values)
    assert len(first) == len(values) and (values[first][which] == values).all()


def test_rows_that_differ_in_anything_have_different_sums() -> None:
    rows = [(), (1,), (2,), (1, 2), (2, 1), (0,), (0, 0), (1, 1, 2), (1, 2, 1), (2, 1, 1), (1 << 40,), (), (2, 1)]
    flat = np.array([it for row in rows for it in row], np.int64)
    sums = sums_of_rows(flat, np.cumsum([0, *map(len, rows)])).tolist()
    assert len(set(sums)) == len(set(rows))
    assert all((one == other) == (sums[i] == sums[j]) for i, one in enumerate(rows) for j, other in enumerate(rows))
