"""Distinct values of columns in which most come again and again: without sorting all of them, as np.unique does.

Each value is put into a table at a place that its bits give, and the last one there stands for all that equal it. The
few that share their place with another value are put into another table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from zombiescope.core.samples import Ints

_Kind = TypeVar("_Kind", bound=np.integer[Any])
_MIX, _B, _C = (np.uint64(it) for it in (0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB))  # splitmix64's
_27, _30, _31 = np.uint64(27), np.uint64(30), np.uint64(31)
_TURNS = 4  # tables; what is left after them is sorted
_FEW = 2_000  # below, np.unique is as fast
_BITS = (12, 20)  # of the table's size: at the most it takes 4 MB, and stays in the caches


def first_of_each(*columns: npt.NDArray[np.integer[Any]]) -> tuple[Ints, Ints]:
    """A row for each distinct value, or pair of values, in any order; and for each row which of those it equals."""
    first, which, rows = _in_a_table(columns)
    for turn in range(1, _TURNS):
        if not len(rows):
            return first, which
        again, number, odd = _in_a_table([it[rows] for it in columns], turn)
        which[rows] = len(first) + number
        first, rows = np.concatenate([first, rows[again]]), rows[odd]
    if len(rows):
        rest = np.stack([it[rows].astype(np.uint64) for it in columns])
        _, again, number = np.unique(rest, axis=1, return_index=True, return_inverse=True)
        which[rows] = len(first) + number.reshape(-1)
        first = np.concatenate([first, rows[again]])
    return first, which


def _in_a_table(columns: Sequence[npt.NDArray[np.integer[Any]]], turn: int = 0) -> tuple[Ints, Ints, Ints]:
    """The rows that stand for others, which of them each row has; and the rows that share a place with another value.

    All rows of one value have one place: they are all among the last, or none is.
    """
    count = len(columns[0])
    bits = min(max(count.bit_length(), _BITS[0]), _BITS[1])
    mixed = columns[0].astype(np.uint64)
    for column in columns[1:]:
        mixed *= _MIX
        mixed ^= mixed >> np.uint64(32)
        mixed += column.astype(np.uint64, copy=False)
    mixed *= _MIX
    mixed ^= mixed >> np.uint64(32)
    mixed *= _MIX + np.uint64(2 * turn)
    place = (mixed >> np.uint64(64 - bits)).astype(np.intp)
    table = np.empty(1 << bits, np.int32)
    table[place] = np.arange(count, dtype=np.int32)
    stands = table[place]
    alike = columns[0][stands] == columns[0]
    for column in columns[1:]:
        alike &= column[stands] == column
    first = np.flatnonzero(stands == np.arange(count, dtype=np.int32))
    number = np.empty(count, np.int64)
    number[first] = np.arange(len(first))
    return first, number[stands], np.flatnonzero(~alike)


def sums_of_rows(values: npt.NDArray[np.integer[Any]], starts: Ints) -> npt.NDArray[np.uint64]:
    """A 64-bit sum of each row, by which rows that differ are told apart; row i is values[starts[i] : starts[i + 1]].

    Values are mixed with their places in the row. With a million rows the chance that two different ones have the same
    sum is one in forty million.
    """
    lengths = np.diff(starts)
    words = np.arange(1, len(values) + 1, dtype=np.uint64)  # from 1 on: a row of one zero is not an empty row
    words -= np.repeat(starts[:-1].astype(np.uint64), lengths)
    words *= _MIX
    words += values.astype(np.uint64)
    found, there = np.zeros(len(lengths), np.uint64), np.flatnonzero(lengths)  # reduceat cannot sum an empty range
    if len(there):
        found[there] = np.add.reduceat(mixed(words), starts[there])
    return found


def mixed(words: npt.NDArray[np.uint64]) -> npt.NDArray[np.uint64]:
    """In place: every bit of a word changes half of all bits (splitmix64's last steps)."""
    with np.errstate(over="ignore"):
        words ^= words >> _30
        words *= _B
        words ^= words >> _27
        words *= _C
        words ^= words >> _31
    return words


def distinct(values: npt.NDArray[_Kind]) -> tuple[npt.NDArray[_Kind], Ints]:
    """As np.unique: the distinct values in order, and for each value its place among them."""
    if len(values) < _FEW:
        found, which = np.unique(values, return_inverse=True)
        return found, which.reshape(-1)
    rows, which = first_of_each(values)
    order = np.argsort(values[rows])
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    return values[rows][order], rank[which]
