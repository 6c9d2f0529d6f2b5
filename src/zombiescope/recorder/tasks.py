"""Which processes were sampled, and where, forked, began a program and exited: before any record of it is decoded.

Most processes of a busy node live for a moment and are in no sample: of 300 new ones a second nine tenths. Each leaves
five to twenty records, mappings above all, that cost 10 µs each to decode; nobody asks for what they say.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from zombiescope.naming.ranges import distinct
from zombiescope.profile.perf_data_records import COMM, FORK, MMAP2, SAMPLE, Piece, cut, spread
from zombiescope.recorder.head import NAME, RING, HeadReader
from zombiescope.recorder.sources import Ring, named

AT_ONCE = 2 << 20  # bytes of rings
EXIT = 4
MOST = 1 << 19  # forks, exits or programs begun: more than fit into one head of ours
GENERATIONS = 64  # from a sampled process back to the first one that was forked within a head
MOST_PAGES = 1 << 20  # 8 MB; five minutes of a busy machine have some 50,000
Pids = npt.NDArray[np.uint64]
_IS_EXEC = np.uint64(1 << 45)  # of header.misc, in the first word of a record
_PID, _HALF, _SIZE = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(51)
_LEAST = np.uint64(4 << 51)  # a record about a process has at least four words, one about a mapping more
_LEAST_MAPPED = np.uint64(13 << 51)
_PAGE, _REST = np.uint64(12), np.uint64(4095)
_NO_PROGRAM = np.uint64(1 << 57)  # no address of a program is above it
_OF_OTHERS = 64  # kinds that only perf itself writes
_ABOUT = np.isin(np.arange(_OF_OTHERS), (COMM, EXIT, FORK, MMAP2))  # which kinds begin with a pid


class Needed(NamedTuple):
    """What of the records about processes anybody will ask for."""

    unneeded: Pids  # processes that have exited, and neither they nor a descendant were sampled; in order
    gone: Pids  # processes that are not there any more when the head ends; in order
    pages: Pids | None  # all that were in a sample, in order; None: too many to tell

    def of(self, rings: Sequence[bytes]) -> tuple[list[bytes], npt.NDArray[np.int64] | None]:
        """Rings without the other records, and at which word of all of them each record begins.

        A ring is as it was, if there is anything odd about it; None then. Of a process that is gone, those mappings are
        needed in which it, or a child that had the same, was sampled.
        """
        whole = b"".join(rings)
        piece, used = cut(whole)
        ends = np.searchsorted(piece.places, np.cumsum([len(it) >> 3 for it in rings]))
        begins = np.append(piece.places, len(piece.words))
        if (
            used != len(whole)
            or (piece.kinds >= _OF_OTHERS).any()
            or any(len(it) & 7 for it in rings)
            or (8 * begins[ends] != np.cumsum([len(it) for it in rings])).any()
        ):
            return (list(rings) if len(rings) < 2 else [it for ring in rings for it in self.of([ring])[0]]), None
        kept = np.ones(len(piece.places), np.bool_)
        about = np.flatnonzero(_ABOUT[piece.kinds] & (piece.heads >= _LEAST))
        kept[about[_among(piece.words[piece.places[about] + 1] & _PID, self.unneeded)]] = False
        if self.pages is not None:
            maps = np.flatnonzero(kept & (piece.kinds == MMAP2) & (piece.heads >= _LEAST_MAPPED))
            maps = maps[_among(piece.words[piece.places[maps] + 1] & _PID, self.gone)]
            start, length = (piece.words[piece.places[maps] + at] for at in (2, 3))
            first, last = (np.searchsorted(self.pages, it >> _PAGE) for it in (start, start + length + _REST))
            kept[maps[first == last]] = False
        sizes = (piece.heads >> _SIZE).astype(np.int64)
        left = piece.words[np.repeat(kept, sizes)].tobytes()
        starts = np.append(0, np.cumsum(sizes * kept))
        bounds = 8 * starts[np.append(0, ends)]
        return [left[begin:end] for begin, end in pairwise(bounds.tolist())], starts[:-1][kept]


class Tasks:
    """Feed it all rings, then ask."""

    def __init__(self) -> None:
        self._sampled, self._execed = _Rows(1), _Rows(1)
        self._forks, self._exits = _Rows(3), _Rows(2)  # pid, when, parent; pid, when
        self._pages: list[Pids] = []
        self._many_pages = 0

    def feed(self, rings: Sequence[bytes]) -> None:
        """What rings of perf_event_open(2) held; what is damaged ends one."""
        whole = b"".join(rings)
        piece, used = cut(whole)
        if used != len(whole) and len(rings) > 1:
            for ring in rings:
                self.feed([ring])
            return
        words = piece.words
        samples = _of(piece, SAMPLE)
        self._sampled.add(distinct(words[samples + 2] & _PID))
        self._add_pages(words[spread(samples, (words[samples] >> _SIZE).astype(np.int64))])
        comms = _of(piece, COMM)
        self._execed.add(words[comms[words[comms] & _IS_EXEC != 0] + 1] & _PID)
        exits = _of(piece, EXIT)
        exits = exits[words[exits + 1] & _PID == words[exits + 2] & _PID]
        self._exits.add(words[exits + 1] & _PID, words[exits + 3])
        forks = _of(piece, FORK)
        forks = forks[words[forks + 1] & _PID != words[forks + 1] >> _HALF]
        self._forks.add(words[forks + 1] & _PID, words[forks + 3], words[forks + 1] >> _HALF)

    def _add_pages(self, words: Pids) -> None:
        """Of all words of samples: what else is in them (times, counts) only keeps a mapping too many."""
        if self._many_pages <= MOST_PAGES:
            self._pages.append(distinct(words[words < _NO_PROGRAM] >> _PAGE))
            self._many_pages += len(self._pages[-1])
            if self._many_pages > MOST_PAGES:
                self._pages = [distinct(np.concatenate(self._pages))]
                self._many_pages = len(self._pages[0])

    @property
    def too_many(self) -> bool:
        """No machine starts so many; a file of a stranger may say so."""
        return max(it.many for it in (self._sampled, self._execed, self._forks, self._exits)) > MOST

    @property
    def execed(self) -> set[int]:
        return set(self._execed.columns()[0].tolist())

    def needed(self) -> Needed:
        needed = None if self.too_many else self._with_parents(distinct(self._sampled.columns()[0]))
        if needed is None:
            return Needed(np.empty(0, np.uint64), np.empty(0, np.uint64), None)
        pages = distinct(np.concatenate(self._pages)) if self._pages and self._many_pages <= MOST_PAGES else None
        exited, exited_at = _latest(*self._exits.columns())
        forked, forked_at = _latest(*self._forks.columns()[:2])
        again = _among(exited, forked)  # the number of a process may have been given to another
        gone = ~again
        gone[again] = exited_at[again] >= forked_at[np.searchsorted(forked, exited[again])]
        return Needed(exited[~_among(exited, needed)], exited[gone], pages)

    def _with_parents(self, pids: Pids) -> Pids | None:
        """Processes with all that they descend from, in order; None if there is no end of these."""
        children, _, parents = self._forks.columns()
        for _ in range(GENERATIONS):
            more = distinct(np.concatenate([pids, parents[_among(children, pids)]]))
            if len(more) == len(pids):
                return pids
            pids = more
        return None


class _Rows:
    """Columns that grow."""

    def __init__(self, columns: int) -> None:
        self._parts: list[tuple[Pids, ...]] = [(np.empty(0, np.uint64),) * columns]
        self.many = 0

    def add(self, *columns: Pids) -> None:
        self._parts.append(columns)
        self.many += len(columns[0])

    def columns(self) -> list[Pids]:
        return [np.concatenate(it) for it in zip(*self._parts, strict=True)]


def first_look(file: BinaryIO) -> tuple[int, Tasks, int]:
    """Of a head: when its rings were first read, what became of processes until its end, how many bytes are intact."""
    began, tasks, rings = 0, Tasks(), set[int]()
    waiting: list[bytes] = []
    size = 0
    reader = HeadReader(file)
    for record in reader:
        if record.kind == NAME and isinstance(named(record.content, 0.0), Ring):
            rings.add(record.source)
        elif record.kind == RING and record.source in rings:
            began = began or record.at
            waiting.append(bytes(record.content))
            size += len(record.content)
            if size > AT_ONCE:
                tasks.feed(waiting)
                waiting, size = [], 0
                if tasks.too_many:
                    break
    tasks.feed(waiting)
    return began, tasks, reader.end


def _among(pids: Pids, some: Pids) -> npt.NDArray[np.bool_]:
    if not len(some):
        return np.zeros(len(pids), np.bool_)
    found: npt.NDArray[np.bool_] = some[np.minimum(np.searchsorted(some, pids), len(some) - 1)] == pids
    return found


def _latest(pids: Pids, times: Pids) -> tuple[Pids, Pids]:
    """Each process once, in order, with the last of its times."""
    order = np.lexsort((times, pids))
    pids, times = pids[order], times[order]
    last = np.append(pids[1:] != pids[:-1], True)[: len(pids)]
    return pids[last], times[last]


def _of(piece: Piece, kind: int) -> npt.NDArray[np.int64]:
    found: npt.NDArray[np.int64] = piece.places[(piece.kinds == kind) & (piece.heads >= _LEAST)]
    return found
