"""What was mapped where: the file and offset for an address of a process.

MMAP and MMAP2 report each executable mapping, those made before the capture with time 0. Unmapping is not reported: an
address is looked up in what was mapped there last while the process ran that program.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from zombiescope.core.samples import Ints, Mask
from zombiescope.naming.kallsyms import Kernel
from zombiescope.naming.ranges import Addresses, Ranges, distinct
from zombiescope.profile.perf_data_records import MMAP, MMAP2, Piece, Places, Words, spread
from zombiescope.profile.perf_data_tasks import Tasks

_BODY = struct.Struct("<IHHIIQQQ")  # kind, misc, size, pid, tid, address, length, offset in the file
_KERNEL, _ALL = 1, 0xFFFFFFFF  # cpumode in misc; the pid of mappings shared by all
_IS_DATA, _HAS_BUILD_ID = 1 << 13, 1 << 14  # misc
_IMAGE = "[kernel.kallsyms]"
_MOST = 2_000_000  # mappings, with those of forked processes counted again: a process has some 20 to 200
_MOST_PARENTS = 16  # a program that forks over and over and never executes another
_LATEST = 1 << 62
_ADDRESS = 52  # bits: the most that a processor has
_PAGE = 12  # bits: mappings begin and end at pages, of 4 KB or more
_FINE = 4  # bits: but `perf inject --jit` makes one of each function that a just-in-time compiler made
_PID, _TIME, _START, _LENGTH, _OFFSET, _FILE = range(6)  # columns of the table of mappings


class File(NamedTuple):
    """What is mapped. The build-id is in hexadecimal, empty if not given."""

    path: str
    build_id: str


class Atlas(NamedTuple):
    """Addresses of many spaces: above the pages of one of them come those of the next."""

    files: list[File]
    spaces: Ints
    ranges: Ranges
    table: Ints  # of each range
    grain: int  # bits of a page

    def find(self, spaces: Ints, addresses: Addresses) -> tuple[Ints, Addresses]:
        """For each address of a space the place of its file in `files`, -1 for none, and the offset in it."""
        number = np.searchsorted(self.spaces, spaces).astype(np.uint64)
        page = addresses >> np.uint64(self.grain)
        hit = self.ranges.find(number << np.uint64(_ADDRESS - self.grain) | page)
        good = (hit >= 0) & (addresses < np.uint64(1 << _ADDRESS))
        if not good.any():
            return np.full(len(addresses), -1, np.int64), addresses
        row = np.where(good, hit, 0)
        shift = (self.table[:, _OFFSET] - self.table[:, _START]).astype(np.uint64)
        return np.where(good, self.table[row, _FILE], -1), addresses + shift[row]


class Mappings:
    """All mapping records, parsed when names are needed; only the kernel's own is parsed at once."""

    def __init__(self) -> None:
        self.kernel: Kernel | None = None
        self._told: list[tuple[Words, Places]] = []  # records in a row, and the words of each
        self._count = self._trailer = self._time_at = 0

    def take(self, piece: Piece, trailer: int, time_at: int) -> None:
        """As for tasks: `trailer` words end a record, and the time is one of them."""
        self._trailer, self._time_at = trailer, time_at
        for kind in (MMAP, MMAP2):
            rows = piece.of(kind)
            if len(rows) and self._count < _MOST:
                self._told.append(piece.gathered(kind))
                self._count += len(rows)
                if self.kernel is None:
                    self._find_kernel(piece, rows)

    def _find_kernel(self, piece: Piece, rows: Places) -> None:
        everybodys = piece.words[np.minimum(rows + 1, len(piece.words) - 1)].astype(np.uint32) == _ALL
        for at in (8 * rows[everybodys]).tolist():
            record = piece.raw[at : at + int.from_bytes(piece.raw[at + 6 : at + 8], "little")]
            file = _file(record, self._trailer) if len(record) > _BODY.size else File("", "")
            if file.path.startswith(_IMAGE) and record[4] & 7 == _KERNEL:
                # In the place of an offset: the address of _text, or of _stext.
                self.kernel = Kernel(_BODY.unpack_from(record)[-1], file.build_id)
                return

    def atlas(self, spaces: Ints, tasks: Tasks, build_ids: Mapping[str, str]) -> Atlas:
        """What was mapped in these spaces, ready to be looked up."""
        used = distinct(spaces)
        table, files = self._read(build_ids, _pids_of(used, tasks))
        rows, number = _of_spaces(used, tasks.spaces_of(table[:, _PID], table[:, _TIME]), table, tasks)
        grain = _grain(table[rows], len(used))
        starts, ends = table[rows, _START], table[rows, _START] + table[rows, _LENGTH]
        ends += (1 << _FINE) - 1 if grain == _FINE else 0
        first = starts >> grain
        keys = (number << _ADDRESS - grain | first).astype(np.uint64)
        return Atlas(files, used, Ranges(keys, ((ends >> grain) - first).astype(np.uint64)), table[rows], grain)

    def _read(self, build_ids: Mapping[str, str], pids: Ints) -> tuple[Ints, list[File]]:
        """A row for each mapping of these processes, in order of time; and the files."""
        number: dict[File, int] = {}
        known: dict[bytes, int] = {}  # by all that identifies a file: most are mapped many times
        tables = [np.empty((0, 6), np.int64)]
        for words, sizes in self._told:
            table, begins, ends = self._columns(words, sizes, pids)
            raw = words.tobytes()
            places = []
            for begin, end in zip(begins.tolist(), ends.tolist(), strict=True):
                told = raw[begin + _BODY.size : end - 8 * self._trailer]
                place = known.get(told, -1)
                if place < 0:
                    file = _file(raw[begin:end], self._trailer)
                    if not file.build_id:
                        file = File(file.path, build_ids.get(file.path, ""))
                    place = known[told] = number.setdefault(file, len(number))
                places.append(place)
            table[:, _FILE] = places
            tables.append(table)
        whole = np.concatenate(tables)
        return whole[np.argsort(whole[:, _TIME], kind="stable")], list(number)

    def _columns(self, words: Words, sizes: Places, pids: Ints) -> tuple[Ints, Ints, Ints]:
        """Of the records of these processes the numbers, the file left open; and the bytes each begins and ends at."""
        ends = np.cumsum(sizes)
        long = sizes * 8 > _BODY.size + 8 * self._trailer  # there is a path
        begins, ends = (ends - sizes)[long], ends[long]
        pid = (words[begins + 1] & np.uint64(_ALL)).astype(np.int64)
        misc = (words[begins] >> np.uint64(32)).astype(np.int64)
        highest = np.uint64(1 << _ADDRESS)
        good = _in_order(pid, pids) & (misc & _IS_DATA == 0) & (pid != _ALL)
        good &= (words[begins + 2] < highest) & (words[begins + 3] < highest) & (words[begins + 4] < np.uint64(_LATEST))
        begins, ends, pid = begins[good], ends[good], pid[good]
        time = words[ends - self._time_at] if self._time_at else np.zeros(len(begins), np.uint64)
        numbers = (np.minimum(time, np.uint64(_LATEST)), words[begins + 2], words[begins + 3], words[begins + 4])
        table = np.stack([pid, *(it.astype(np.int64) for it in numbers), np.zeros(len(pid), np.int64)], axis=1)
        return table, 8 * begins, 8 * ends


def _grain(table: Ints, spaces: int) -> int:
    """How fine addresses are told apart: finer than pages only where a mapping is, and where the spaces leave room."""
    odd = (table[:, _START] | table[:, _LENGTH]) & ((1 << _PAGE) - 1)
    return _FINE if odd.any() and spaces < 1 << 64 - _ADDRESS + _FINE else _PAGE


def _in_order(numbers: Ints, some: Ints) -> Mask:
    """Which numbers are among some that are in order."""
    if not len(some):
        return np.zeros(len(numbers), np.bool_)
    found: Mask = some[np.minimum(np.searchsorted(some, numbers), len(some) - 1)] == numbers
    return found


def _pids_of(used: Ints, tasks: Tasks) -> Ints:
    """The processes whose mappings these spaces may have: their own, and those they were forked from."""
    _, parents = tasks.spaces()
    seen = used[used >= 0]
    for _ in range(_MOST_PARENTS):
        above = parents[seen]
        more = distinct(np.concatenate([seen, above[above >= 0]]))
        if len(more) == len(seen):
            break
        seen = more
    found: Ints = distinct(tasks.pid_of_space[seen])
    return found


def _file(record: bytes, trailer: int) -> File:
    """The path at the end; MMAP2 has more fields before it, or a build-id in place of device and inode."""
    two = record[0] == MMAP2
    path = record[72 if two else _BODY.size : len(record) - 8 * trailer].partition(b"\0")[0]
    has_build_id = two and len(record) > 64 and record[5] << 8 & _HAS_BUILD_ID
    build_id = _build_id(record[40:64]) if has_build_id else ""
    return File(path.decode("utf-8", "surrogateescape"), build_id)


def _build_id(told: bytes) -> str:
    """A length and up to 20 bytes. If another profiler at that time asked for build-ids, the kernel marks records that
    have device and inode instead (perf_event_mmap_event keeps the mark from one event to the next)."""
    size = int.from_bytes(told[:4], "little")
    return told[4 : 4 + size].hex() if size <= 20 and not any(told[4 + size :]) else ""


def _of_spaces(used: Ints, owners: Ints, table: Ints, tasks: Tasks) -> tuple[Ints, Ints]:
    """The mappings of each space, inherited ones first; and for each the number of its space."""
    since, parents = tasks.spaces()
    order = np.argsort(owners, kind="stable")  # within a space they stay in order of time
    edges = np.searchsorted(owners[order], np.arange(len(since) + 1))
    known = np.flatnonzero(used >= 0)
    alone, forked = known[parents[used[known]] < 0], known[parents[used[known]] >= 0]
    lengths = np.diff(edges)[used[alone]]
    parts: list[Ints] = [order[spread(edges[used[alone]], lengths)]]
    numbers: list[Ints] = [np.repeat(alone, lengths)]
    place, space, limit = forked, used[forked], np.full(len(forked), _LATEST)
    left = _MOST
    for _ in range(_MOST_PARENTS):  # its own, then its parent's up to the fork, and so on
        lengths = np.diff(edges)[space]
        fits = np.cumsum(lengths) <= left
        place, space, limit, lengths = place[fits], space[fits], limit[fits], lengths[fits]
        if not len(space):
            break
        left -= int(lengths.sum())
        rows, which = order[spread(edges[space], lengths)], np.repeat(np.arange(len(space)), lengths)
        kept = table[rows, _TIME] <= limit[which]
        parts.append(rows[kept])
        numbers.append(place[which[kept]])
        limit, space = np.minimum(limit, since[space]), parents[space]
        there = space >= 0
        place, space, limit = place[there], space[there], limit[there]
    return np.concatenate(parts[::-1]), np.concatenate(numbers[::-1])
