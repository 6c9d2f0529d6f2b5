"""What rings say of processes: which were sampled, forked, began a program and exited; what of it is asked for later.

Most processes of a busy node live for a moment and are in no sample: of 300 new ones a second nine tenths. Each leaves
five to twenty records, mappings above all, that cost 10 µs each to decode. So all rings of a head are looked through
by column first, and the records that nobody will ask for are cut out before any of them is decoded.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import BinaryIO, NamedTuple

import numpy as np
import numpy.typing as npt

from zombiescope.naming.ranges import SPREAD, distinct
from zombiescope.profile.perf_data_records import COMM, FORK, MMAP2, SAMPLE, Piece, Places, Words, cut, spread
from zombiescope.recorder.head import LEFT_OUT, NAME, RING, HeadReader
from zombiescope.recorder.side_band import MOST_UNKNOWN
from zombiescope.recorder.sources import Ring, boot_of, named
from zombiescope.recorder.spans import Mask, Spans

EXIT = 4
AT_ONCE = 2 << 20  # bytes of rings that are looked through together: more would not stay in the caches
MOST_BYTES, MOST_NS = 2 << 20, 30_000_000_000  # of a batch
MOST = 1 << 19  # forks, exits or programs begun: more than fit into one head of ours
MOST_PAGES = 1 << 20  # 8 MB; five minutes of a busy machine have some 50,000
_IS_EXEC = np.uint64(1 << 45)  # of header.misc, in the first word of a record
_PID, _HALF, _SIZE = np.uint64(0xFFFFFFFF), np.uint64(32), np.uint64(51)
_LEAST = np.uint64(4 << 51)  # a record about a process has at least four words, one about a mapping more
_LEAST_MAPPED = np.uint64(13 << 51)
_PAGE, _REST = np.uint64(12), np.uint64(4095)
_NO_PROGRAM = np.uint64(1 << 57)  # no address of a program is above it
_LATELY, _TO_PLACE = 1 << 16, np.uint64(48)
_OF_OTHERS = 64  # kinds that only perf itself writes
_ABOUT = np.isin(np.arange(_OF_OTHERS), (COMM, EXIT, FORK, MMAP2))  # which kinds begin with a pid


class Needed(NamedTuple):
    """Those of the programs that were sampled, or live on."""

    spans: Spans | None  # None: of all
    pages: Words | None  # all that were in a sample, in order; None: too many to tell

    def of(self, rings: Sequence[bytes]) -> tuple[list[bytes], Places | None]:
        """Rings without the other records, and at which word of all of them each record begins.

        A ring is as it was, if there is anything odd about it; None then. Of a program that is over, those mappings are
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
        kept = self._kept(piece)
        sizes = np.where(kept, piece.heads >> _SIZE, 0).astype(np.int64)
        left = piece.words[spread(piece.places[kept], sizes[kept])].tobytes()
        starts = np.append(0, np.cumsum(sizes))
        bounds = 8 * starts[np.append(0, ends)]
        return [left[begin:end] for begin, end in pairwise(bounds.tolist())], starts[:-1][kept]

    def _kept(self, piece: Piece) -> Mask:
        words, heads = piece.words, piece.heads
        kept = np.ones(len(heads), np.bool_)
        if self.spans is None:
            return kept
        about = np.flatnonzero(_ABOUT[piece.kinds] & (heads >= _LEAST))
        at, kind = piece.places[about], piece.kinds[about]
        brief = (kind == FORK) | (kind == EXIT)  # their time is in front, that of the others next to the last word
        when = np.where(brief, at + 3, at + (heads[about] >> _SIZE).astype(np.int64) - 2)
        span = self.spans.numbers(words[at + 1] & _PID, words[when])
        used = (span < 0) | np.where(kind == EXIT, self.spans.exit_used[span], self.spans.used[span])
        kept[about[~used]] = False
        if self.pages is not None:
            maps = np.flatnonzero(used & (kind == MMAP2) & (heads[about] >= _LEAST_MAPPED) & (span >= 0))
            maps = maps[~self.spans.lasting[span[maps]]]
            start, length = (words[at[maps] + word] for word in (2, 3))
            first, last = (np.searchsorted(self.pages, it >> _PAGE) for it in (start, start + length + _REST))
            kept[about[maps[first == last]]] = False
        return kept


class Part(NamedTuple):
    """Of one ring, as it was read at once."""

    ring: Ring
    at: int
    content: bytes


class Batch:
    """Rings in the order in which they were read."""

    def __init__(self, needed: Needed) -> None:
        self._needed = needed
        self._new: list[Part] = []
        self._parts: list[Part] = []
        self._starts: list[Places] | None = []
        self._new_size = self._size = 0

    def is_full(self, part: Part) -> bool:
        """Whether this one has to wait for the next batch."""
        first = next(iter(self._parts or self._new), None)
        if first is None:
            return False
        last = (self._new or self._parts)[-1]
        return self._size > MOST_BYTES or (part.at != last.at and part.at - first.at > MOST_NS)

    def add(self, part: Part) -> None:
        if self._new_size + len(part.content) > AT_ONCE:
            self._look_through()
        self._new.append(part)
        self._new_size += len(part.content)

    def taken(self) -> tuple[list[Part], Places | None]:
        """All of it, and at which word of all contents together each record begins, if that is known."""
        self._look_through()
        starts = None if self._starts is None else np.concatenate([np.empty(0, np.int64), *self._starts])
        parts, self._parts, self._starts, self._size = self._parts, [], [], 0
        return parts, starts

    def _look_through(self) -> None:
        if not self._new:
            return
        contents, starts = self._needed.of([it.content for it in self._new])
        if starts is None or self._starts is None:
            self._starts = None
        else:
            self._starts.append(starts + (self._size >> 3))
        self._size += sum(map(len, contents))
        self._parts += [it._replace(content=content) for it, content in zip(self._new, contents, strict=True)]
        self._new, self._new_size = [], 0


class Tasks:
    """Feed it all rings, then ask."""

    def __init__(self) -> None:
        self._sampled, self._exits, self._execs = _Rows(2), _Rows(2), _Rows(2)  # pid, when
        self._forks = _Rows(3)  # pid, when, parent
        self._pages: list[Words] = []
        self._many_pages = 0
        self._lately = np.zeros(_LATELY, np.uint64)  # pages, each at its place by a hash

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
        self._sampled.add(words[samples + 2] & _PID, words[samples + 3])
        self._add_pages(words[spread(samples, (words[samples] >> _SIZE).astype(np.int64))])
        comms = _of(piece, COMM)
        comms = comms[words[comms] & _IS_EXEC != 0]
        ends = comms + (words[comms] >> _SIZE).astype(np.int64)
        self._execs.add(words[comms + 1] & _PID, words[ends - 2])
        exits = _of(piece, EXIT)
        exits = exits[words[exits + 1] & _PID == words[exits + 2] & _PID]
        self._exits.add(words[exits + 1] & _PID, words[exits + 3])
        forks = _of(piece, FORK)
        forks = forks[words[forks + 1] & _PID != words[forks + 1] >> _HALF]
        self._forks.add(words[forks + 1] & _PID, words[forks + 3], words[forks + 1] >> _HALF)

    def left_out(self, content: memoryview, at: int) -> None:
        """Processes of which records are missing: what they run from then on is another program, of which nothing is
        known."""
        if not self.too_many:
            pids = unknown_pids(content)
            self._execs.add(pids.astype(np.uint64), np.full(len(pids), at, np.uint64))

    def _add_pages(self, words: Words) -> None:
        """Of all words of samples: what else is in them (times, counts) only keeps a mapping too many."""
        if self._many_pages <= MOST_PAGES:
            pages = words[words < _NO_PROGRAM] >> _PAGE
            place = pages * SPREAD >> _TO_PLACE
            pages, place = (it[self._lately[place] != pages] for it in (pages, place))
            self._lately[place] = pages
            self._pages.append(distinct(pages))  # to sort them takes longest, and most come again and again
            self._many_pages += len(self._pages[-1])
            if self._many_pages > MOST_PAGES:
                self._pages = [distinct(np.concatenate(self._pages))]
                self._many_pages = len(self._pages[0])

    @property
    def too_many(self) -> bool:
        """No machine starts so many; a file of a stranger may say so."""
        return max(it.many for it in (self._execs, self._forks, self._exits)) > MOST

    @property
    def execed(self) -> set[int]:
        return set(self._execs.columns()[0].tolist())

    def spans(self) -> Spans:
        return Spans(*(it.columns() for it in (self._sampled, self._exits, self._execs, self._forks)))

    def needed(self, spans: Spans) -> Needed:
        if self.too_many or not len(spans):
            return Needed(None, None)
        known = self._pages and self._many_pages <= MOST_PAGES
        return Needed(spans, distinct(np.concatenate(self._pages)) if known else None)


class _Rows:
    """Columns that grow."""

    def __init__(self, columns: int) -> None:
        self._parts: list[tuple[Words, ...]] = [(np.empty(0, np.uint64),) * columns]
        self.many = 0

    def add(self, *columns: Words) -> None:
        self._parts.append(columns)
        self.many += len(columns[0])

    def columns(self) -> list[Words]:
        return [np.concatenate(it) for it in zip(*self._parts, strict=True)]


def unknown_pids(content: memoryview) -> npt.NDArray[np.uint32]:
    """What a LEFT_OUT record says; a recorder's has at most so many."""
    found = np.frombuffer(content[: len(content) // 4 * 4], "<u4")[:MOST_UNKNOWN]
    return found[found < 1 << 22]  # Linux has no pid above


class FirstLook(NamedTuple):
    """Of a head."""

    began: int  # when its rings were first read
    tasks: Tasks  # what became of processes until its end
    checked: int  # bytes that are intact
    boot: str  # in which it was recorded; empty if it does not say


def first_look(file: BinaryIO) -> FirstLook:
    began, tasks, rings, boot = 0, Tasks(), set[int](), ""
    waiting: list[bytes] = []
    size = 0
    reader = HeadReader(file)
    for record in reader:
        if record.kind == NAME and isinstance(named(record.content, 0.0), Ring):
            rings.add(record.source)
        elif record.kind == NAME:
            boot = boot or boot_of(record.content)
        elif record.kind == RING and record.source in rings:
            began = began or record.at
            waiting.append(bytes(record.content))
            size += len(record.content)
            if size > AT_ONCE:
                tasks.feed(waiting)
                waiting, size = [], 0
                if tasks.too_many:
                    break
        elif record.kind == LEFT_OUT and record.source in rings:
            tasks.left_out(record.content, record.at)
    tasks.feed(waiting)
    return FirstLook(began, tasks, reader.end, boot)


def _of(piece: Piece, kind: int) -> Places:
    found: Places = piece.places[(piece.kinds == kind) & (piece.heads >= _LEAST)]
    return found
