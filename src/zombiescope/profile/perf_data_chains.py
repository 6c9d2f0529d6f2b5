"""Call chains, each kept once: what makes a profile of any length fit into memory.

A chain is identified by a 64-bit hash of its addresses and their positions: with a million chains the chance that two
are taken for one is one in forty million. Addresses of a process mean something in that process alone, so its pid is
part of the hash; the kernel's addresses are the same for all.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from zombiescope.core.samples import Ints, Mask
from zombiescope.profile.perf_data_records import Places, Words, spread
from zombiescope.profile.repeats import mixed, sums_of_rows

# Marks among the addresses: whose addresses follow (enum perf_callchain_context). No address is as high as the lowest.
USER_MARK, KERNEL_MARK, LOWEST_MARK = ((1 << 64) - below for below in (512, 128, 4095))

MOST_WORDS = 60_000_000  # addresses and marks: 480 MB. A chain has some ten, and few chains are new after a while
# All marks: hypervisor, kernel, user, deferred user, guest, guest's kernel, guest's user.
MARKS = np.array([(1 << 64) - below for below in (32, 128, 512, 640, 2048, 2176, 2560)], np.uint64)
_A = np.uint64(0x9E3779B97F4A7C15)


class Chains:
    """All distinct chains so far, in order of appearance, as words with marks, leaf first."""

    def __init__(self) -> None:
        self._known: Words = np.empty(0, np.uint64)  # hashes, sorted
        self._number: npt.NDArray[np.int32] = np.empty(0, np.int32)  # of each hash
        self._words: list[Words] = []
        self._lengths: list[Places] = []
        self._users: list[Mask] = []
        self._size = 0

    def __len__(self) -> int:
        return len(self._known)

    @property
    def is_full(self) -> bool:
        return self._size > MOST_WORDS

    def numbered(self, words: Words, starts: Places, lengths: Places, pids: Words) -> npt.NDArray[np.int32]:
        """The number of each chain; chain i is words[starts[i] : starts[i] + lengths[i]], and all are contiguous."""
        told, users = _told_apart(words, starts, lengths, pids)
        order = np.argsort(told)
        told = told[order]
        begins = np.append(True, told[1:] != told[:-1])
        distinct, first = told[begins], order[begins]
        place = np.searchsorted(self._known, distinct)
        fresh = np.ones(len(distinct), bool)
        inside = place < len(self._known)
        fresh[inside] = self._known[place[inside]] != distinct[inside]
        number = np.empty(len(distinct), np.int32)
        number[~fresh] = self._number[place[~fresh]]
        if fresh.any():
            number[fresh] = np.arange(len(self), len(self) + int(fresh.sum()), dtype=np.int32)
            self._known = np.insert(self._known, place[fresh], distinct[fresh])
            self._number = np.insert(self._number, place[fresh], number[fresh])
            rows = first[fresh]
            self._words.append(words[spread(starts[rows], lengths[rows])])
            self._size += len(self._words[-1])
            self._lengths.append(lengths[rows])
            self._users.append(users[rows])
        found = np.empty(len(told), np.int32)
        found[order] = number[np.cumsum(begins) - 1]
        return found

    def all(self) -> tuple[Words, Places, Mask]:
        """The words of all chains in a row; the start of each, and the end; which have addresses of a process."""
        words = np.concatenate([np.empty(0, np.uint64), *self._words])
        lengths = np.concatenate([np.zeros(1, np.int64), *self._lengths])
        self._words = []
        return words, np.cumsum(lengths), np.concatenate([np.empty(0, np.bool_), *self._users])


def _told_apart(words: Words, starts: Places, lengths: Places, pids: Words) -> tuple[Words, Mask]:
    """The hash of each chain: its words mixed with their positions; and which have addresses of a process."""
    users = np.zeros(len(starts), np.bool_)
    there = np.flatnonzero(lengths)  # reduceat cannot judge an empty range
    if not len(there):
        return np.zeros(len(starts), np.uint64), users
    users[there] = np.logical_or.reduceat(words == np.uint64(USER_MARK), starts[there])
    found = sums_of_rows(words, np.append(starts, starts[-1] + lengths[-1]))
    found[users] += mixed(pids[users] * _A + np.uint64(1))
    return found, users


def among(words: Words, few: Words) -> Mask:
    """Which words are among a few. np.isin would import numpy.ma, which takes 20 ms."""
    found: Mask = np.logical_or.reduce([words == it for it in few])
    return found


class Stacks(NamedTuple):
    """Distinct stacks: the chain each has, and whose it is, by a time at which it was seen."""

    words: Words
    starts: Places  # of each chain, and one more
    chain: npt.NDArray[np.int32]  # of each stack
    pid: npt.NDArray[np.int32]  # of each stack
    at: Ints  # of each stack

    def spoilt(self) -> Mask:
        """For each chain: whether unwinding a user stack without frame pointers gave invalid addresses."""
        usual = (self.words == np.uint64(USER_MARK)) | (self.words == np.uint64(KERNEL_MARK))
        high = np.flatnonzero((self.words >= np.uint64(LOWEST_MARK)) & ~usual)
        bad = high[~among(self.words[high], MARKS)]
        found: Mask = np.zeros(len(self.starts) - 1, np.bool_)
        found[np.searchsorted(self.starts, bad, side="right") - 1] = True
        return found

    def idle_task_leaves(self) -> tuple[Words, Places]:
        """The kernel addresses in which the idle task was found, and the stacks that end in them."""
        of = np.flatnonzero((self.pid == 0) & (np.diff(self.starts)[self.chain] > 1))
        begins = self.starts[self.chain[of]]
        kernel = self.words[begins] == np.uint64(KERNEL_MARK)
        return self.words[begins[kernel] + 1], of[kernel]
