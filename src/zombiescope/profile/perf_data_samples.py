"""Samples of a perf.data file in columns: what a sample holds, and in which words of it, depends on what was asked for.

    header | identifier | ip | pid, tid | time | addr | id | stream | cpu | period | read … | nr | nr addresses | …

Each of them is there if its bit of `sample_type` is set. Up to the call chain only `read` varies in length; the cgroup
comes last but for words of fixed length, so it is counted from the end.

Kernel: perf_output_sample in kernel/events/core.c.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from zombiescope.profile import perf_data_header as asked
from zombiescope.profile.events import is_clock, plain
from zombiescope.profile.perf_data_branches import has_calls, with_calls
from zombiescope.profile.perf_data_chains import KERNEL_MARK, LOWEST_MARK, USER_MARK, Chains
from zombiescope.profile.perf_data_header import Event
from zombiescope.profile.perf_data_records import SAMPLE, Piece, Places, Words, spread

if TYPE_CHECKING:
    from zombiescope.profile.unwind import Unwinder

MOST = 40_000_000  # samples: 1.3 GB of columns. 96 cores at 99 Hz take 70 minutes for them
_KERNEL, _GUEST_KERNEL = 1, 4  # the low three bits of misc: what ran when it was taken
_LATEST = np.uint64(1 << 62)  # nanoseconds: later is nonsense, and sums of it would not fit
_LONGEST = 8000  # addresses: what fits into the 64 KB of a record
_ORDER = (asked.IDENTIFIER, asked.IP, asked.TID, asked.TIME, asked.ADDR, asked.ID, asked.STREAM_ID, asked.CPU)
_COLUMNS = ("at", "cpu", "pid", "tid", "chain", "leaf", "cgroup", "event", "period")
Spans = Sequence[tuple[int, int]]  # nanoseconds: from the first of each until before the second
_NEVER = (1 << 62, -1)
_Kind = TypeVar("_Kind", bound=np.generic)


class Layout(NamedTuple):
    """The word of a sample that holds each field, the header being word 0; 0 for fields that are absent."""

    places: dict[int, int]
    variable: int  # the word at which what follows the period begins
    cgroup: int  # counted from the end

    @classmethod
    def of(cls, event: Event) -> Layout:
        places, word = {}, 1
        for bit in (*_ORDER, asked.PERIOD):
            if event.sample_type & bit:
                places[bit] = word
                word += 1
        behind = (asked.CGROUP, asked.DATA_PAGE_SIZE, asked.CODE_PAGE_SIZE)
        told = event.sample_type & asked.CGROUP and not event.sample_type & asked.AUX
        return cls(places, word, sum(bool(event.sample_type & bit) for bit in behind) if told else 0)


class SampleRecords:
    """All samples so far, of all events; which of them are shown is chosen when all are known."""

    def __init__(
        self,
        events: Sequence[Event],
        unwinder: Unwinder | None = None,
        *,
        stacks: bool = True,
        spans: Spans | None = None,
    ) -> None:
        """Without `stacks` no chains are kept, but in which function the idle task was; `spans` leaves others out."""
        # A dummy event only requests task and mapping records. Events of many cores are mostly the same.
        sampling = [it for it in events if not it.is_dummy] or list(events)
        alike = {(plain(it.name), it.sample_type, it.read_format, it.branches, it.registers) for it in sampling}
        self._events = sampling if len(alike) > 1 else sampling[:1]
        self._names = list(dict.fromkeys(plain(it.name) for it in self._events))
        self.counts = dict.fromkeys(self._names, 0)
        self._unwinder, self._stacks, self._spans = unwinder, stacks, spans
        self.chains = Chains()
        self.count = 0
        self.broken = 0  # that are cut short
        self.stacks = 0  # of a process's memory, as recorded for unwinding
        self._columns: dict[str, list[npt.NDArray[np.generic]]] = {it: [] for it in _COLUMNS}

    def take(self, piece: Piece) -> tuple[int, int]:
        """The earliest and the latest time of its samples."""
        rows = piece.of(SAMPLE)
        times = [self._add(piece.words, its, event) for event, its in self._by_event(piece.words, rows) if len(its)]
        return min((it[0] for it in times), default=_NEVER[0]), max((it[1] for it in times), default=_NEVER[1])

    def event(self, name: str) -> Event:
        return next(it for it in self._events if plain(it.name) == name)

    def rows(self, name: str) -> Places | None:
        """The samples of an event; None for all."""
        numbers = self.column("event", np.int16)
        return None if len(self._names) == 1 else np.flatnonzero(numbers == self._names.index(name))

    def column(self, name: str, kind: type[_Kind]) -> npt.NDArray[_Kind]:
        """One of at, cpu, pid, tid, chain, leaf, cgroup, event, period; removed here, so that it is not kept twice."""
        parts = [np.empty(0, kind), *self._columns.pop(name)]
        return np.concatenate(parts).astype(kind, copy=False)

    def _by_event(self, words: Words, rows: Places) -> list[tuple[Event, Places]]:
        """The id names the event. It is in the first word of all samples, or where the first event has it."""
        if len(self._events) == 1:
            return [(self._events[0], rows)]
        places = Layout.of(self._events[0]).places
        at = places.get(asked.IDENTIFIER) or places.get(asked.ID)
        if not at:
            return [(self._events[0], rows)]
        ends = rows + (words[rows] >> np.uint64(51)).astype(np.int64)
        whole = rows + at < ends
        self.broken += int((~whole).sum())
        rows = rows[whole]
        ids = words[rows + at]
        known = [np.isin(ids, np.array(event.ids, np.uint64)) for event in self._events]
        found = [(event, rows[its]) for event, its in zip(self._events, known, strict=True) if its.any()]
        nobodys = rows[~np.logical_or.reduce(known)]
        return [*found, (self._events[0], nobodys)] if len(nobodys) else found

    def _add(self, words: Words, rows: Places, event: Event) -> tuple[int, int]:
        layout = Layout.of(event)
        ends = rows + (words[rows] >> np.uint64(51)).astype(np.int64)
        whole = rows + layout.variable + layout.cgroup <= ends
        chain_at, whole = _chain_at(words, rows, ends, event, layout, whole)
        if not whole.all():
            self.broken += int((~whole).sum())
            rows, ends, chain_at = rows[whole], ends[whole], chain_at[whole]
        at = np.minimum(_word(words, rows, layout.places.get(asked.TIME), 0), _LATEST).astype(np.int64)
        if self._spans is not None:
            meant = np.logical_or.reduce([(at >= start) & (at < end) for start, end in self._spans])
            rows, ends, chain_at, at = rows[meant], ends[meant], chain_at[meant], at[meant]
        room = MOST - self.count
        rows, ends, chain_at, at = rows[:room], ends[:room], chain_at[:room], at[:room]
        self.count += len(rows)
        if not len(rows):
            return _NEVER
        who = _word(words, rows, layout.places.get(asked.TID), (1 << 64) - 1)
        pid = who.astype(np.uint32)
        name = plain(event.name)
        self.counts[name] += len(rows)
        self.stacks += len(rows) if event.sample_type & asked.STACK_USER else 0
        added: dict[str, npt.NDArray[np.generic]] = {
            "at": at,
            "cpu": _word(words, rows, layout.places.get(asked.CPU), (1 << 64) - 1).astype(np.int32),
            "tid": (who >> np.uint64(32)).astype(np.int32),
        }
        ip_at = layout.places.get(asked.IP)
        if self._stacks:
            source, chains = words, chain_at
            if self._unwinder is not None and has_stack(event):
                source, chains = self._unwinder.extended(words, ends, chain_at, event, (pid.astype(np.int64), at))
            elif has_calls(event):
                source, chains = with_calls(words, ends, chain_at, event)
            flat, starts, lengths = _marked_chains(words, rows, source, chains, ip_at)
            added["chain"] = self.chains.numbered(flat, starts, lengths, pid.astype(np.uint64))
            added["pid"] = pid.astype(np.int32)
            cgroup = words[ends - layout.cgroup] if layout.cgroup else np.zeros(len(rows))
            added["cgroup"] = cgroup.astype(np.int64)
        else:
            added["leaf"] = np.zeros(len(rows), np.uint64)
            idle = np.flatnonzero(pid == 0)
            added["leaf"][idle] = _kernel_leaves(words, rows[idle], chain_at[idle], ip_at)
        if len(self._names) > 1:
            added["event"] = np.full(len(rows), self._names.index(name), np.int16)
        if is_clock(name) and asked.PERIOD in layout.places:
            added["period"] = _word(words, rows, layout.places[asked.PERIOD], 0).astype(np.int64)
        elif len(self._names) > 1:
            added["period"] = np.zeros(len(rows), np.int64)
        for column, values in added.items():
            self._columns[column].append(values)
        return int(at.min()), int(at.max())


def _word(words: Words, rows: Places, place: int | None, otherwise: int) -> Words:
    return words[rows + place] if place else np.full(len(rows), otherwise, np.uint64)


def _chain_at(
    words: Words, rows: Places, ends: Places, event: Event, layout: Layout, whole: npt.NDArray[np.bool_]
) -> tuple[Places, npt.NDArray[np.bool_]]:
    """For each sample the word with the length of its chain, 0 if it has none; and whether the chain is complete."""
    if not event.sample_type & asked.CALLCHAIN:
        return np.zeros(len(rows), np.int64), whole
    at = rows + layout.variable
    if event.sample_type & asked.READ:
        each = 1 + sum(bool(event.read_format & bit) for bit in (asked.READ_ID, asked.READ_LOST))
        times = sum(bool(event.read_format & bit) for bit in (asked.READ_ENABLED, asked.READ_RUNNING))
        if event.read_format & asked.READ_GROUP:
            members = words[np.minimum(at, len(words) - 1)]
            whole = whole & (members < np.uint64(_LONGEST))
            at = at + 1 + times + each * np.where(whole, members, 0).astype(np.int64)
        else:
            at = at + times + each
    whole = whole & (at < ends)
    count = words[np.where(whole, at, 0)]
    whole = whole & (count <= np.uint64(_LONGEST))
    whole = whole & (at + 1 + np.where(whole, count, 0).astype(np.int64) <= ends)
    return at, whole


def has_stack(event: Event) -> bool:
    """Whether samples of an event hold registers and a copy of the stack, to be unwound."""
    wanted = asked.REGS_USER | asked.STACK_USER | asked.CALLCHAIN
    return event.sample_type & wanted == wanted


def _marked_chains(
    words: Words, rows: Places, source: Words, chain_at: Places, ip_at: int | None
) -> tuple[Words, Places, Places]:
    """The chains in a row, each beginning with a mark; a sample without a chain has the address it was taken at.

    The samples are in `words`, their chains in `source`: the same, unless they were put together.
    """
    heads, ips = words[rows], words[rows + ip_at] if ip_at else np.zeros(0, np.uint64)
    asked_for = (chain_at > 0) | (source is not words)
    words = source
    nr = np.where(asked_for, words[chain_at], 0).astype(np.int64)
    first = words[np.where(nr > 0, chain_at + 1, 0)]
    bare = (nr == 0) & bool(ip_at)
    unmarked = bare | ((nr > 0) & (first < np.uint64(LOWEST_MARK)))
    lengths = nr + unmarked + bare
    ends = np.cumsum(lengths)
    starts = ends - lengths
    if not unmarked.any():  # as it nearly always is
        return words[spread(chain_at + 1, lengths)], starts, lengths
    flat = np.zeros(int(ends[-1]), np.uint64)
    begins = starts + unmarked
    flat[spread(begins, nr)] = words[spread(chain_at + 1, nr)]
    mode = (heads >> np.uint64(32)) & np.uint64(7)
    kernel = (mode == np.uint64(_KERNEL)) | (mode == np.uint64(_GUEST_KERNEL))
    flat[starts[unmarked]] = np.where(kernel, np.uint64(KERNEL_MARK), np.uint64(USER_MARK))[unmarked]
    if ip_at:
        flat[starts[bare] + 1] = ips[bare]
    return flat, starts, lengths


def _kernel_leaves(words: Words, rows: Places, chain_at: Places, ip_at: int | None) -> Words:
    """The kernel's address that each sample was taken at; 0 if it was not in the kernel."""
    found = np.zeros(len(rows), np.uint64)
    if len(rows):
        flat, starts, lengths = _marked_chains(words, rows, words, chain_at, ip_at)
        there = np.flatnonzero(lengths > 1)
        begins = starts[there]
        found[there] = np.where(flat[begins] == np.uint64(KERNEL_MARK), flat[begins + 1], np.uint64(0))
    return found
