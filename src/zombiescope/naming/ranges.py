"""Ranges of addresses and their owners: the lookup behind kernel, ELF and JIT symbols.

Symbols overlap: aliases begin at the same address, hand-written assembly nests, a JIT reuses memory. Overlaps are
resolved once, when the ranges are made, so that a lookup is one binary search: 20 million addresses a second.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from typing import TypeVar

import numpy as np
import numpy.typing as npt

Addresses = npt.NDArray[np.uint64]
Indexes = npt.NDArray[np.int64]
Name = TypeVar("Name")
_Kind = TypeVar("_Kind", bound=np.generic)

_TOP = np.uint64((1 << 64) - 1)
SPREAD = np.uint64(0x9E3779B97F4A7C15)  # odd: its upper bits depend on all bits of what it is multiplied with
_HEAD = 64  # bytes of a name that decide between aliases; kernel names reach 69, and beyond 64 any choice is fine


class Ranges:
    """Disjoint ranges, sorted; `owners` says which of the given ranges each piece belongs to."""

    def __init__(self, starts: Addresses, sizes: Addresses) -> None:
        """Where given ranges overlap the later one wins, so give them in the order of their rank."""
        owners = np.flatnonzero(sizes > 0).astype(np.int64)
        begin = starts[owners]
        owners = owners[np.argsort(begin, kind="stable")]
        begin = starts[owners]
        ends = begin + np.minimum(sizes[owners], _TOP - begin)  # a size that wraps around ends at the top
        if bool((ends[:-1] > begin[1:]).any()):
            begin, ends, owners = _disjoint(begin, ends, owners)
        self.starts: Addresses = begin
        self.sizes: Addresses = ends - begin
        self.owners: Indexes = owners

    def find(self, addresses: Addresses) -> Indexes:
        """The owner of each address, -1 for none."""
        if not len(self.starts):
            return np.full(len(addresses), -1, dtype=np.int64)
        before = np.searchsorted(self.starts, addresses, side="right").astype(np.int64) - 1
        at = np.maximum(before, 0)
        inside = (before >= 0) & (addresses - self.starts[at] < self.sizes[at])
        return np.where(inside, self.owners[at], -1)

    def find_one(self, address: int) -> int:
        """The owner of one address, -1 for none: ten times as fast as `find` for one."""
        at = int(np.searchsorted(self.starts, np.uint64(address), side="right")) - 1
        if at < 0 or address - int(self.starts[at]) >= int(self.sizes[at]):
            return -1
        return int(self.owners[at])


def distinct(values: npt.NDArray[_Kind]) -> npt.NDArray[_Kind]:
    """In order. np.unique would import numpy.ma, which takes 20 ms."""
    found = np.sort(values)
    once: npt.NDArray[_Kind] = found[np.append(True, found[1:] != found[:-1])[: len(found)]]
    return once


def numbered(values: npt.NDArray[_Kind]) -> tuple[npt.NDArray[_Kind], Indexes, Indexes]:
    """The distinct ones in order, where each was first, and of each value the number among them."""
    order = np.argsort(values)
    ordered = values[order]
    other = np.append(True, ordered[1:] != ordered[:-1])[: len(ordered)]
    which = np.empty(len(order), np.int64)
    which[order] = np.cumsum(other) - 1
    first: Indexes = np.minimum.reduceat(order, np.flatnonzero(other)) if len(order) else order
    return ordered[other], first, which


def grouped(keys: npt.NDArray[np.uint64]) -> tuple[Indexes, Indexes]:
    """Of the distinct ones, in the order they first came, where each was first; and of each key the number among them.

    By one step of a hash table, made of whole columns; only those that meet another key at their place are sorted. A
    fifth of the time that it takes to sort all of them.
    """
    all_places = np.arange(len(keys), dtype=np.int32)
    bits = max(2 * len(keys), 2).bit_length()
    slot = (keys * SPREAD >> np.uint64(64 - bits)).astype(np.int32)
    table = np.empty(1 << bits, np.int32)
    table[slot[::-1]] = all_places[::-1]  # the last one that is written stays: the first of them
    first = table[slot]
    others = np.flatnonzero(keys[first] != keys)
    if len(others):
        _, begins, which = numbered(keys[others])
        first[others] = others[begins][which]
    is_first = first == all_places
    return np.flatnonzero(is_first), (np.cumsum(is_first) - 1)[first]


def _disjoint(begin: Addresses, ends: Addresses, owners: Indexes) -> tuple[Addresses, Addresses, Indexes]:
    """Only those that overlap another need the sweep: of 20,000 mappings of a whole machine, a few."""
    group = np.cumsum(np.append(True, begin[1:] >= np.maximum.accumulate(ends)[:-1])) - 1
    shared = np.bincount(group)[group] > 1
    settled = _settled(begin[shared], ends[shared], owners[shared])
    columns = [
        np.concatenate(pair) for pair in zip((begin[~shared], ends[~shared], owners[~shared]), settled, strict=True)
    ]
    order = np.argsort(columns[0])
    return columns[0][order], columns[1][order], columns[2][order]


# A sweep over all starts and ends, with the open owners in a heap: n log n whatever the overlaps are.
def _settled(begin: Addresses, ends: Addresses, owners: Indexes) -> tuple[Addresses, Addresses, Indexes]:
    edges = distinct(np.concatenate([begin, ends]))
    opening, closing, ranks = begin.tolist(), ends.tolist(), owners.tolist()
    waiting: list[tuple[int, int]] = []
    following = 0
    won = np.full(len(edges), -1, dtype=np.int64)
    for piece, edge in enumerate(edges.tolist()):
        while following < len(opening) and opening[following] == edge:
            heapq.heappush(waiting, (-ranks[following], closing[following]))
            following += 1
        while waiting and waiting[0][1] <= edge:
            heapq.heappop(waiting)
        if waiting:
            won[piece] = -waiting[0][0]
    owned = np.flatnonzero(won >= 0)  # never the last edge: nothing is open behind it
    return edges[owned], edges[owned + 1], won[owned]


def named(found: Indexes, name: Callable[[int], Name], otherwise: Name) -> list[Name]:
    """A name for each index found; each distinct one is made once."""
    once, which = np.unique(found, return_inverse=True)
    names = [name(index) if index >= 0 else otherwise for index in once.tolist()]
    return [names[index] for index in which.reshape(-1).tolist()]


def best_aliases(
    starts: Addresses,
    sized: npt.NDArray[np.bool_],
    weak: npt.NDArray[np.bool_],
    exported: npt.NDArray[np.bool_],
    text: npt.NDArray[np.uint8],
    name_at: Indexes,
) -> Indexes:
    """Which symbols to keep, one for each address and sorted by it, in perf's order of preference.

    choose_best_symbol in tools/perf/util/symbol.c: has a size, is not weak, is global, has fewer underscores in front,
    has the longer name; then small letters (sys_read before SyS_read, two names of one function before v4.17).
    Names stand in `text` from `name_at` to the next byte that is no letter (NUL, tab, space or newline).
    """
    order: Indexes = np.argsort(starts, kind="stable").astype(np.int64)
    sorted_starts = starts[order]
    same = sorted_starts[1:] == sorted_starts[:-1]
    if same.any():
        rivals = np.flatnonzero(np.append(same, False) | np.append(False, same))
        some = order[rivals]
        underscores, length, first = _heads(text, name_at[some])
        keys = (-first, -length, underscores, ~exported[some], weak[some], ~sized[some], starts[some])
        order[rivals] = some[np.lexsort(keys)]
    return order[np.append(True, ~same)] if len(order) else order


# One column of bytes at a time, of the names that go on: 64 bytes a name would be 64 MB for a million aliases.
def _heads(text: npt.NDArray[np.uint8], at: Indexes) -> tuple[Indexes, Indexes, Indexes]:
    length, underscores = np.zeros(len(at), dtype=np.int64), np.zeros(len(at), dtype=np.int64)
    first = np.zeros(len(at), dtype=np.int64)
    rows = np.flatnonzero(at < len(text))
    first[rows] = text[at[rows]]
    first[first <= 32] = 0
    scored = rows  # those that begin with nothing but underscores so far
    for column in range(_HEAD):
        letters = text[at[rows] + column]
        rows = rows[letters > 32]
        if not len(rows):
            break
        length[rows] = column + 1
        if len(scored):
            scored = scored[text[at[scored] + column] == ord("_")]
            underscores[scored] = column + 1
            scored = scored[at[scored] + column + 1 < len(text)]
        rows = rows[at[rows] + column + 1 < len(text)]
    return underscores, length, first
