"""What ran: the name of a thread, and the program of its process, at any time of a capture.

A thread inherits its parent's name (FORK) until it gets another (COMM); a process inherits its parent's mappings until
it executes a program. Pids and tids are reused, so each record holds from its time to the next one's. Tasks that ran
before the capture are reported with time 0. EXIT is not needed: a thread that exited is not sampled, and a reused
number is reported first.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from zombiescope.core.samples import Ints
from zombiescope.naming.ranges import distinct
from zombiescope.profile.perf_data_records import COMM, FORK, Piece, Words

IDLE_TASK = b"swapper"  # the kernel's name for it; followed by the core's number
_EXECED = np.uint64(1 << 13)  # misc of a COMM: it executed a program; of a FORK: it existed before the capture
_LATEST = np.uint64(1 << 62)  # nanoseconds: later is nonsense, and would not fit
_LOW, _32 = np.uint64(0xFFFFFFFF), np.uint64(32)
_MOST = 10_000_000  # records: two for each program run, which a node that does nothing else has in an hour
_SMALL = 1 << 23  # pids: the kernel has 2^22 at the most


class Since:
    """Rows that each hold for a key (a pid, a tid) from a time until that key's next."""

    def __init__(self, key: Ints, time: Ints) -> None:
        self._known = distinct(key)
        told = time[time > 0]
        # One less, so that whatever is earlier than the first row with a time is not that row's.
        self._first = int(told.min()) - 1 if len(told) else 0
        self._widest = max(int(time.max(initial=0)) - self._first, 0) + 1
        # Keys are numbered and times counted from the first, so that both fit into one word: a search for each answer.
        bits = self._widest.bit_length()
        self._coarse = max(bits + len(self._known).bit_length() - 63, 0)  # only where times are nonsense
        self._bits = bits - self._coarse
        heads = np.searchsorted(self._known, key) << self._bits | self._offset(time)
        self._order = np.argsort(heads, kind="stable")
        self._heads = heads[self._order]

    def row(self, key: Ints, at: Ints) -> Ints:
        """For each key and time the last row that is no later; -1 for none."""
        if not len(self._heads):
            return np.full(len(key), -1, np.int64)
        number, there = self._number(key)
        found = np.searchsorted(self._heads, number << self._bits | self._offset(at), side="right") - 1
        good = there & (found >= 0) & (self._heads[found] >> self._bits == number)
        answer: Ints = np.where(good, self._order[found], -1)
        return answer

    def _offset(self, time: Ints) -> Ints:
        return np.clip(time - self._first, 0, self._widest) >> self._coarse

    def _number(self, key: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        highest = int(self._known[-1])
        if highest < _SMALL:
            numbers = np.full(highest + 2, -1, np.int64)
            numbers[self._known] = np.arange(len(self._known))
            number = numbers[np.where((key >= 0) & (key <= highest), key, highest + 1)]
        else:
            number = np.minimum(np.searchsorted(self._known, key), len(self._known) - 1)
            number[self._known[number] != key] = -1
        return np.maximum(number, 0), number >= 0


class Tasks:
    """All task records; once settled, the name and address space of each task at any time."""

    def __init__(self) -> None:
        self.comms: list[str] = []
        self.named: Ints = np.empty((2, 0), np.int64)  # pid, and the place of its name in `comms`, which may be -1
        self._count = 0
        self._comm_records: list[npt.NDArray[np.uint64]] = []  # time, pid and tid, two words of name, misc
        self._fork_records: list[npt.NDArray[np.uint64]] = []  # time, pid and its parent's, tid and its parent's, misc

    def take(self, piece: Piece, trailer: int, time_at: int) -> None:
        """`trailer`: how many words end a record; `time_at`: which of them, from the end, is the time, 0 for none."""
        words = piece.words
        for kind, least in ((FORK, 4), (COMM, 3)):
            rows = piece.of(kind)
            ends = rows + (words[rows] >> np.uint64(51)).astype(np.int64)
            good = ends - rows >= least + trailer
            rows, ends = rows[good], ends[good]
            self._count += len(rows)
            if not len(rows) or self._count > _MOST:
                continue
            first, second, misc = words[rows + 1], words[rows + 2], words[rows] >> _32
            if kind == FORK:
                self._fork_records.append(np.stack([np.minimum(words[rows + 3], _LATEST), first, second, misc]))
                continue
            time = words[ends - time_at] if time_at else np.zeros(len(rows), np.uint64)
            # A name has 16 bytes at the most, in one word or two.
            long = ends - trailer - rows > 3
            rest = np.where(long, words[np.where(long, rows + 3, 0)], np.uint64(0))
            self._comm_records.append(np.stack([np.minimum(time, _LATEST), first, second, rest, misc]))

    def settle(self) -> None:
        """No more records will come."""
        comms = np.concatenate([np.empty((5, 0), np.uint64), *self._comm_records], axis=1)
        forks = np.concatenate([np.empty((4, 0), np.uint64), *self._fork_records], axis=1)
        self._comm_records, self._fork_records = [], []
        self._settle_names(comms, forks)
        self._settle_spaces(comms, forks)

    def names_of(self, tid: Ints, at: Ints) -> Ints:
        """For each time of a thread its index in `named`; -1 if unknown."""
        return self._names.row(tid, at)

    def spaces_of(self, pid: Ints, at: Ints) -> Ints:
        """For each time of a process the number of its address space; -1 if unknown."""
        return self._spaces.row(pid, at)

    def spaces(self) -> tuple[Ints, Ints]:
        """For each space its start time, and the one it was forked from, which may be -1."""
        parent = self._spaces.row(self._forked_by, self._space_time - 1)
        return self._space_time, np.where(self._forked_by >= 0, parent, -1)

    def _settle_names(self, comms: Words, forks: Words) -> None:
        """Rows: the idle task's, forks', names'; of those of one time forks come first: a child's name is its own."""
        texts = np.ascontiguousarray(comms[2:4].T).view("S16").reshape(-1)
        distinct, which = np.unique(np.append(np.array([IDLE_TASK], "S16"), texts), return_inverse=True)
        self.comms = [it.partition(b"\0")[0].decode("utf-8", "surrogateescape") for it in distinct.tolist()]
        which = which.reshape(-1).astype(np.int64)
        count = forks.shape[1]
        time = np.concatenate([[0], forks[0], comms[0]]).astype(np.int64)
        self._names = Since(np.concatenate([[0], forks[2] & _LOW, comms[1] >> _32]).astype(np.int64), time)
        # A fork points at the row of its parent, which may be a fork: from row to row until there is a name.
        parent = self._names.row((forks[2] >> _32).astype(np.int64), forks[0].astype(np.int64))
        pointer = np.concatenate([[0], parent, np.arange(len(time) - 1 - count) + 1 + count])
        own = np.arange(len(time))
        pointer = np.where((pointer == own) & (own > 0) & (own <= count), -1, pointer)
        for _ in range(64):  # each time twice as far; forks that point at each other, at one time, never end
            further = np.where(pointer >= 0, pointer[pointer], -1)
            if (further == pointer).all():
                break
            pointer = further
        named = (pointer == 0) | (pointer > count)
        comm = np.concatenate([which[:1], np.full(count, -1), which[1:]])
        pid = np.concatenate([[0], forks[1] & _LOW, comms[1] & _LOW]).astype(np.int64)
        self.named = np.stack([pid, np.where(named, comm[pointer], -1)])

    def _settle_spaces(self, comms: Words, forks: Words) -> None:
        """Rows: one for every process that was named at all, forks of processes, programs executed."""
        forks = forks[:, (forks[1] & _LOW) != forks[1] >> _32]
        execs = comms[:, comms[4] & _EXECED != 0]
        first = distinct(comms[1] & _LOW)
        pid: Ints = np.concatenate([first, forks[1] & _LOW, execs[1] & _LOW]).astype(np.int64)
        self.pid_of_space = pid
        self._space_time: Ints = np.concatenate([np.zeros(len(first)), forks[0], execs[0]]).astype(np.int64)
        self._spaces = Since(pid, self._space_time)
        of_fork = np.where(forks[3] & _EXECED != 0, -1, (forks[1] >> _32).astype(np.int64))
        self._forked_by: Ints = np.concatenate([np.full(len(first), -1), of_fork, np.full(execs.shape[1], -1)])
