"""Code that came into the kernel while a capture ran, and its names: BPF programs, their trampolines, kprobes.

Each is reported when it is loaded, those that were there before with time 0 (KSYMBOL). /proc/kallsyms has only what is
loaded when it is read: most of them are gone by then, and another may be at the same address.

    header | address | length (32 bits), type, flags (16 each) | name, padded with zeros to words | trailer
"""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from zombiescope.core.samples import Ints
from zombiescope.naming.clean import clean
from zombiescope.naming.ranges import distinct
from zombiescope.profile.perf_data_records import KSYMBOL, Piece, Words, spread
from zombiescope.profile.perf_data_tasks import Since

_NAME = 24  # bytes before it
_BPF = 1  # PERF_RECORD_KSYMBOL_TYPE_BPF; the other is code of kprobes and ftrace
_GONE = 1  # flag: it was taken out
_MOST = 65_536  # reports: a node with Cilium has some hundred programs
_MOST_PIECES = 1 << 20  # of all of them, cut where another begins or ends
_LATEST = 1 << 62  # nanoseconds: later is nonsense


class _Table(NamedTuple):
    """Addresses cut where one begins or ends; each piece has an owner from a time until its next."""

    edges: Words
    since: Since
    owners: Ints


class Ksymbols:
    """All of them. One that was taken out keeps its name until another is there: it may still be running."""

    def __init__(self) -> None:
        self._names: list[str] = []
        self._rows: list[tuple[int, int, int]] = []  # address, end, time

    def take(self, piece: Piece, trailer: int, time_at: int) -> None:
        """As for tasks: `trailer` words end a record, and the time is one of them."""
        for record in piece.bytes_of(KSYMBOL)[: _MOST - len(self._rows)]:
            name, nul, _ = record[_NAME:].partition(b"\0")
            if not nul or not name or record[_NAME - 2] & _GONE:
                continue
            # Not counted from the end: while several profilers run, the kernel makes these records too long.
            at = _NAME + (len(name) + 8 & ~7) + 8 * (trailer - time_at)
            time = int.from_bytes(record[at : at + 8], "little") if time_at else 0
            address, length = int.from_bytes(record[8:16], "little"), int.from_bytes(record[16:20], "little")
            if address + length < 1 << 64:
                self._rows.append((address, address + length, min(time, _LATEST)))
                self._names.append(clean(name.decode("utf-8", "replace")) + (" [bpf]" if record[20] == _BPF else ""))

    def named(self, addresses: Words, at: Ints) -> tuple[Ints, list[str]]:
        """Of some addresses and times the places where there is one, and its name, as /proc/kallsyms has it."""
        if not self._rows or not len(addresses):
            return np.empty(0, np.int64), []
        table = self._table
        near = np.flatnonzero((addresses >= table.edges[0]) & (addresses < table.edges[-1]))
        piece = np.searchsorted(table.edges, addresses[near], side="right").astype(np.int64) - 1
        row = table.since.row(piece, at[near])
        there = row >= 0
        return near[there], [self._names[it] for it in table.owners[row[there]].tolist()]

    @cached_property
    def _table(self) -> _Table:
        begins, ends = (np.array([it[side] for it in self._rows], np.uint64) for side in (0, 1))
        times = np.array([it[2] for it in self._rows], np.int64)
        edges = distinct(np.concatenate([begins, ends]))
        first, last = (np.searchsorted(edges, it).astype(np.int64) for it in (begins, ends))
        lengths = last - first
        lengths[np.cumsum(lengths) > _MOST_PIECES] = 0
        owners = np.repeat(np.arange(len(times)), lengths)
        return _Table(edges, Since(spread(first, lengths), times[owners]), owners)
