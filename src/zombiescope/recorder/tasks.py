"""Which processes were sampled, forked, began a program and exited: known before any record about them is decoded.

Most processes of a busy node live for a moment and are in no sample: of 300 new ones a second nine tenths. Each leaves
five to twenty records, mappings above all, that cost 10 µs each to decode; nobody asks for what they say.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from zombiescope.profile.perf_data_records import COMM, FORK, MMAP2, SAMPLE, Piece, cut, distinct

EXIT = 4
MOST = 1 << 19  # processes: more than a node starts in an hour
Pids = npt.NDArray[np.uint64]
_IS_EXEC = np.uint64(1 << 45)  # of header.misc, in the first word of a record
_PID, _HALF, _SIZE = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(51)
_LEAST = np.uint64(3 << 51)  # a record about a process has at least three words
_OF_OTHERS = 64  # kinds that only perf itself writes


class Tasks:
    """Feed it all rings, then ask."""

    def __init__(self) -> None:
        self.execed: set[int] = set()
        self._sampled: set[int] = set()
        self._exited: set[int] = set()
        self._parent: dict[int, set[int]] = {}

    def feed(self, ring: bytes) -> None:
        """What a ring of perf_event_open(2) held; what is damaged ends it."""
        piece = cut(ring)[0]
        words = piece.words
        self._sampled.update(distinct(words[_of(piece, SAMPLE) + 2] & _PID).tolist())
        comms = _of(piece, COMM)
        self.execed.update((words[comms[words[comms] & _IS_EXEC != 0] + 1] & _PID).tolist())
        exits = _of(piece, EXIT)
        pids, tids = words[exits + 1] & _PID, words[exits + 2] & _PID
        self._exited.update(pids[pids == tids].tolist())
        both = words[_of(piece, FORK) + 1]
        both = both[both & _PID != both >> _HALF]
        for pid, parent in zip((both & _PID).tolist(), (both >> _HALF).tolist(), strict=True):
            self._parent.setdefault(pid, set()).add(parent)

    @property
    def too_many(self) -> bool:
        """No machine starts so many; a file of a stranger may say so."""
        return max(map(len, (self._sampled, self._exited, self.execed, self._parent))) > MOST

    def unneeded(self) -> Pids:
        """Processes that have exited, and neither they nor a descendant were sampled; in order."""
        if self.too_many:
            return np.empty(0, np.uint64)
        needed, unread = set(self._sampled), list(self._sampled)
        while unread:
            for parent in self._parent.get(unread.pop(), ()):
                if parent not in needed:
                    needed.add(parent)
                    unread.append(parent)
        return np.array(sorted(self._exited - needed), np.uint64)


def thinned(ring: bytes, unneeded: Pids) -> bytes:
    """A ring without the records about some processes; as it was, if there is anything odd about it."""
    piece, used = cut(ring)
    if not len(unneeded) or used != len(ring) or (piece.kinds >= _OF_OTHERS).any():
        return ring
    about = np.flatnonzero(np.isin(piece.kinds, (COMM, EXIT, FORK, MMAP2)) & (piece.heads >= _LEAST))
    pids = piece.words[piece.places[about] + 1] & _PID
    place = np.minimum(np.searchsorted(unneeded, pids), len(unneeded) - 1)
    kept = np.ones(len(piece.places), np.bool_)
    kept[about[unneeded[place] == pids]] = False
    return piece.words[np.repeat(kept, (piece.heads >> _SIZE).astype(np.int64))].tobytes()


def _of(piece: Piece, kind: int) -> npt.NDArray[np.int64]:
    return piece.places[(piece.kinds == kind) & (piece.heads >= _LEAST)]
