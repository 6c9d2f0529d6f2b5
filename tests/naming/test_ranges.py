"""Ranges: against a painter that colours every address by hand, and the order of preference between aliases."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.naming.ranges import Ranges, best_aliases, grouped


def addresses(values: list[int]) -> np.ndarray[tuple[int], np.dtype[np.uint64]]:
    return np.array(values, dtype=np.uint64)


@given(st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=25))
def test_the_later_range_wins_wherever_ranges_overlap(given_ranges: list[tuple[int, int]]) -> None:
    painted = [-1] * 100
    for number, (start, size) in enumerate(given_ranges):
        painted[start : start + size] = [number] * size
    ranges = Ranges(addresses([start for start, _ in given_ranges]), addresses([size for _, size in given_ranges]))
    assert ranges.find(addresses(list(range(100)))).tolist() == painted
    assert (ranges.starts[1:] >= ranges.starts[:-1] + ranges.sizes[:-1]).all()


def test_a_range_that_wraps_around_ends_at_the_top() -> None:
    top = (1 << 64) - 1
    ranges = Ranges(addresses([top - 10, 5]), addresses([top, 1]))
    assert ranges.find(addresses([top - 11, top - 10, top - 1, 0, 5])).tolist() == [-1, 0, 0, -1, 1]


def test_of_aliases_the_one_perf_would_choose_is_kept() -> None:
    symbols = [
        (16, True, True, False, "weak_one"),
        (16, False, False, True, "unsized_but_global"),
        (16, True, False, False, "local_one"),
        (16, True, False, True, "__read"),
        (16, True, False, True, "read"),
        (16, True, False, True, "a_longer_read"),
        (8, True, False, True, "SyS_read"),
        (8, True, False, True, "sys_read"),
        (32, True, True, False, "alone"),
    ]
    while symbols:
        text = b"\0".join(name.encode() for *_, name in symbols)
        places = np.array([0] + [index + 1 for index, byte in enumerate(text) if not byte], dtype=np.int64)
        starts, sized, weak, exported = (np.array([row[column] for row in symbols]) for column in range(4))
        kept = best_aliases(
            starts.astype(np.uint64), sized, weak, exported, np.frombuffer(text, dtype=np.uint8), places[: len(symbols)]
        )
        names = [symbols[index][4] for index in kept.tolist()]
        preferred = ["a_longer_read", "read", "__read", "local_one", "weak_one", "unsized_but_global"]
        there = [name for name in preferred if name in text.decode().split("\0")]
        assert names == ["sys_read", there[0], "alone"]
        symbols = [row for row in symbols if row[4] != there[0]] if len(there) > 1 else []


@given(st.lists(st.integers(0, 40) | st.integers(0, (1 << 64) - 1), max_size=300))
def test_groups_are_those_of_a_dictionary(values: list[int]) -> None:
    known: dict[int, int] = {}
    which = [known.setdefault(it, len(known)) for it in values]
    first, groups = grouped(np.array(values, np.uint64))
    assert groups.tolist() == which and [values[it] for it in first.tolist()] == list(known)
    assert [values.index(it) for it in known] == first.tolist()


def test_keys_that_meet_in_one_place_are_told_apart() -> None:
    """All of them: their products with the spreading number differ in their lowest bits only."""
    back = pow(0x9E3779B97F4A7C15, -1, 1 << 64)
    values = [it * back % (1 << 64) for it in [*range(1000), *range(0, 1000, 7)]]
    first, groups = grouped(np.array(values, np.uint64))
    assert first.tolist() == list(range(1000)) and groups.tolist() == [*range(1000), *range(0, 1000, 7)]
