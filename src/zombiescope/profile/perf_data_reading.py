"""What is gathered of a perf.data file, piece by piece: samples, tasks, mappings, cgroups."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from zombiescope.core.errors import Unparsable
from zombiescope.profile import perf_data_header
from zombiescope.profile.perf_data_facts import build_ids
from zombiescope.profile.perf_data_header import CPU, ID, STREAM_ID, TID, TIME, Event, Header, Read, with_facts
from zombiescope.profile.perf_data_ksymbols import Ksymbols
from zombiescope.profile.perf_data_mappings import Mappings
from zombiescope.profile.perf_data_records import (
    CGROUP,
    HEADER_ATTR,
    HEADER_BUILD_ID,
    HEADER_FEATURE,
    LOST,
    LOST_SAMPLES,
    PIECE,
    THROTTLE,
    Piece,
    cut,
)
from zombiescope.profile.perf_data_samples import MOST, SampleRecords, Spans, has_stack
from zombiescope.profile.perf_data_tasks import Tasks

if TYPE_CHECKING:
    from zombiescope.profile.unwind import OpenFile, Unwinder

_MOST_GROUPS = 1 << 20  # paths of cgroups


class Place(NamedTuple):
    """Where a piece is, and the times of its samples."""

    read: Read
    at: int
    size: int
    first: int
    last: int


class Records:
    """The records of a file, which may be in several: one for each thread of `perf record --threads`."""

    def __init__(self, read: Read, size: int, label: str, more: Sequence[tuple[Read, int]] = ()) -> None:
        """A bad header raises Unparsable."""
        self.header = perf_data_header.parse(read, size, label)
        self.in_place = bool(self.header.events) and not self.header.compressed  # not packed, nor from a pipe
        self._parts = [(read, self.header.start, self.header.end), *((each, 0, length) for each, length in more)]
        if not self.header.events:
            self.header = _piped(self.header, next((piece for _, _, piece in self.pieces([])), None), label)

    def pieces(self, notes: list[str]) -> Iterator[tuple[Read, int, Piece]]:
        """Each piece, what reads it and where that file ends."""
        if self.in_place:
            from zombiescope.profile.perf_data_records import pieces
        else:
            from zombiescope.profile.perf_data_stream import pieces
        for read, start, end in self._parts:
            for piece in pieces(read, start, end, notes):
                yield read, end, piece

    def again(self, places: Iterable[Place], spans: Spans) -> Iterator[Piece]:
        """The pieces that have samples of these times; all, where they cannot be read one by one."""
        if not self.in_place:
            yield from (piece for _, _, piece in self.pieces([]))
            return
        for it in places:
            if any(it.first < end and it.last >= start for start, end in spans):
                yield cut(it.read(it.at, it.size))[0]


class Reading:
    """What was gathered so far."""

    def __init__(self, records: Records, label: str, *, stacks: bool = True) -> None:
        self.records, self.header, self.label = records, records.header, label
        self.notes = list(self.header.notes)
        self.unwinder: Unwinder | None = None
        self.samples = SampleRecords(self.header.events, stacks=stacks)
        self.tasks, self.mappings, self.ksymbols = Tasks(), Mappings(), Ksymbols()
        self.trailer, self.time_at = _trailer(self.header.events[0])
        self.cgroups: dict[int, str] = {}
        self.build_ids = dict(self.header.build_ids)
        self.places: list[Place] = []
        self.lost = self.throttled = 0

    def read(self, open_file: OpenFile | None) -> None:
        """All of it; with `open_file`, which gives programs and libraries, user stacks are unwound."""
        if open_file is not None and self.is_unwound:
            first = Reading(self.records, self.label)
            for _, _, piece in self.records.pieces([]):  # before any stack can be unwound
                first._place(piece)
            first.tasks.settle()
            self.unwinder = first.made_unwinder(open_file)
            self.samples = SampleRecords(self.header.events, self.unwinder)
        for read, end, piece in self.records.pieces(self.notes):
            first_at, last_at = self.samples.take(piece)
            self._take(piece)
            self.places.append(Place(read, piece.offset, min(PIECE, end - piece.offset), first_at, last_at))
            if self.samples.count >= MOST or self.samples.chains.is_full:
                count = self.samples.count
                self.notes.append(f"only the first {count:,} samples are read: more would not fit into memory")
                break
        if self.unwinder is not None:
            self.unwinder.close()
        self.tasks.settle()

    def part(self, spans: Spans, open_file: OpenFile | None) -> None:
        """After that, the samples of some times once more, and their stacks."""
        self.unwinder = self.made_unwinder(open_file) if open_file is not None and self.is_unwound else None
        self.samples = SampleRecords(self.header.events, self.unwinder, spans=spans)
        for piece in self.records.again(self.places, spans):
            self.samples.take(piece)
        if self.unwinder is not None:
            self.unwinder.close()

    @property
    def is_unwound(self) -> bool:
        return any(map(has_stack, self.header.events))

    def made_unwinder(self, open_file: OpenFile) -> Unwinder:
        from zombiescope.profile.unwind import Unwinder

        spaces = np.arange(len(self.tasks.spaces()[0]))
        return Unwinder(self.mappings.atlas(spaces, self.tasks, self.build_ids), self.tasks.spaces_of, open_file)

    def _take(self, piece: Piece) -> None:
        self._place(piece)
        self.ksymbols.take(piece, self.trailer, self.time_at)
        for kind, word in ((LOST, 2), (LOST_SAMPLES, 1)):
            self.lost += sum(int.from_bytes(it[8 * word : 8 * word + 8], "little") for it in piece.bytes_of(kind))
        self.throttled += len(piece.of(THROTTLE))
        for record in piece.bytes_of(CGROUP):
            if len(self.cgroups) < _MOST_GROUPS:
                path = record[16 : len(record) - 8 * self.trailer].partition(b"\0")[0]
                self.cgroups[int.from_bytes(record[8:16], "little")] = path.decode("utf-8", "surrogateescape")

    def _place(self, piece: Piece) -> None:
        """What ran, and what was mapped where."""
        self.tasks.take(piece, self.trailer, self.time_at)
        self.mappings.take(piece, self.trailer, self.time_at)
        for record in piece.bytes_of(HEADER_BUILD_ID):
            self.build_ids.update(build_ids(record))


def _piped(header: Header, first: Piece | None, label: str) -> Header:
    """Data from a pipe has its events in records, before anything else."""
    events = []
    for record in first.bytes_of(HEADER_ATTR) if first else ():
        size = int.from_bytes(record[12:16], "little")
        if 64 <= size <= len(record) - 8:
            ids = np.frombuffer(record[8 + size :], np.uint64).tolist() if (len(record) - size) % 8 == 0 else []
            events.append(perf_data_header.event(record[8 : 8 + size], tuple(ids)))
    if first is None or not events:
        raise Unparsable(label, 16, "perf.data from a pipe without events: cut off")
    facts = {int.from_bytes(it[8:16], "little"): it[16:] for it in first.bytes_of(HEADER_FEATURE)}
    return with_facts(header._replace(events=tuple(events)), facts)


def _trailer(event: Event) -> tuple[int, int]:
    """Words in the trailer of every record that is not a sample, and which of them, from the end, is the time."""
    if not event.trailed:
        return 0, 0
    asked = [bit for bit in (TID, TIME, ID, STREAM_ID, CPU, perf_data_header.IDENTIFIER) if event.sample_type & bit]
    return len(asked), len(asked) - asked.index(TIME) if TIME in asked else 0
