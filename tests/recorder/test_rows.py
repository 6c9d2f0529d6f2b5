"""Rows of a clock that was set: of what was recorded twice the second holds, and nothing else is dropped."""

from __future__ import annotations

import numpy as np
import pytest

from zombiescope.recorder.rows import MOST_SET, in_order

DAY = np.arange(0.0, 600.0)


@pytest.mark.parametrize(
    ("parts", "kept"),
    [
        ([DAY], 600),
        ([DAY[:300], DAY[300:] + 3600, DAY[300:]], 900),  # forwards, and back to where it was
        ([DAY[:300], DAY[300:] - 3600, DAY[300:]], 900),  # back, and forwards again
        ([DAY[:300], DAY[:300] - 65 + 300], 600 - 65),  # a minute was recorded twice
    ],
)
def test_what_is_kept(parts: list[np.ndarray[tuple[int], np.dtype[np.float64]]], kept: int) -> None:
    at = np.concatenate(parts)
    rows = in_order(at)
    assert len(rows) == kept and (np.diff(at[rows]) >= 0).all()


def test_times_that_are_no_clock_s_are_only_sorted() -> None:
    at = np.random.default_rng(1).uniform(0.0, 1e6, 100 * MOST_SET)
    assert len(in_order(at)) == len(at)
