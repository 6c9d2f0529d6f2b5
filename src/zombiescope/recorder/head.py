"""The head of a recording: what the capture process appends, as it came, until it is settled into a segment.

One file, records one after the other. Each begins with 24 bytes, little-endian:

    crc u32      of all that follows in this record (zlib's)
    length u32   of the content
    at u64       nanoseconds of CLOCK_MONOTONIC, when it was read
    source u16   of which source: that to which the last NAME record before it gave this number
    kind u8      see below
    5 bytes      zero

What was not written whole (kill -9, a crash of the machine) fails its length or its crc: the head ends before it.

Sources, as NAME records describe them:

    {"probe": "vmstat"}     FETCHED of a probe that reads fixed files (see core.fetched), SAMPLE of any other
    {"ring": 7, "event": "cpu-clock", "hz": 49, "cgroup": true, "ksymbol": true}
                            RING and LOST of one core; "side" in place of "ring" for its side records
    {"boot": "a1b2…"}       none: what is in this head is of that boot
Standard library only: the capture process imports this.
"""

from __future__ import annotations

import json
import struct
import time
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, BinaryIO, NamedTuple

from zombiescope.core import Reading
from zombiescope.kernel.perf_open import Event
from zombiescope.kernel.perf_rings import Drained
from zombiescope.recorder.changes import MINUTE, Changes
from zombiescope.recorder.clock import ahead_ns, nanoseconds, seconds
from zombiescope.recorder.own_forks import ours_now
from zombiescope.recorder.sample_text import LATEST
from zombiescope.recorder.sampling import Fetched, Sample

MAGIC = b"zombiescope head 1\n"
MOST_CONTENT = 64 << 20  # bytes of one record: the ring of one core is at most 8 MB, a file at most 16 MB
MOST_SOURCES = 0xFFFF
MOST_RINGS = MOST_SOURCES - 4096  # of them: one core is a hundred where others use its counter, one for each share
LONG = 1 << 16  # bytes: what a busy ring held is not copied once more to be written together with the rest
STILL_NS = 100_000  # a clock that moved less is not written down again
JUMP_NS = 50_000_000  # one that moved more within seconds was set; one that is slewed moves 0.5 ms a second

CLOCK = 1  # i64: unix time minus CLOCK_MONOTONIC in nanoseconds, from here on
NAME = 2  # JSON: what a source is, such as {"probe": "proc_stat"} or {"ring": 7}
FETCHED = 3  # the bytes of a file that its probe parses later
SAME = 4  # read again, and the bytes were the same; of a sample: nothing new, and blind to the same
SAMPLE = 5  # JSON: the readings of one sample of a probe that parses at once, see sample()
RING = 6  # records of perf_event_open(2), as the kernel wrote them
LOST = 7  # u64: how many of those the kernel had no room for, since the last one
LEFT_OUT = 8  # u32 each: processes of which records are missing since then, see side_band.py
FULL = 0.995  # of the time: a counter that counted as much was not shared
RECORDER = "recorder"  # what it says of itself, as if by a probe of this name

_HEADER = struct.Struct("<IIQHB5x")
_REST = struct.Struct("<IQHB5x")  # without its crc
_json = json.JSONEncoder(separators=(",", ":")).encode  # json.dumps() makes one each time
_CRC = 4  # bytes


class Record(NamedTuple):
    kind: int
    source: int
    at: int  # nanoseconds of CLOCK_MONOTONIC
    content: memoryview


Take = Callable[[Record, int | None], object]  # a record, and unix time minus its clock if that is known
Write = Callable[[Sequence[bytes]], object]  # pieces, to be written one after the other


class HeadWriter:
    """Builds a head. Nothing is written before `flush`: one call for all that came since."""

    def __init__(self, write: Write) -> None:
        self._write = write
        self._parts: list[bytes] = [MAGIC]
        self._sources: dict[str, int] = {}
        self._last: dict[int, bytes] = {}
        self._unseen: dict[int, tuple[Sequence[tuple[str, str, str, str]], str]] = {}
        self._sampled: dict[int, float] = {}  # when a sample of each source was last written whole
        self.ahead = 0  # unix time minus CLOCK_MONOTONIC, as last written down
        self.bytes = 0  # flushed

    def clock(self, at: int, ahead: int) -> None:
        if not self.ahead or abs(ahead - self.ahead) >= STILL_NS:
            self.ahead = ahead
            self.put(CLOCK, 0, at, struct.pack("<q", ahead))

    def source(self, what: Mapping[str, Any], at: int) -> int:
        """The number of a source; it is named in the head the first time."""
        key = json.dumps(what)
        if key not in self._sources:
            if len(self._sources) >= MOST_SOURCES:
                raise ValueError("too many sources")
            self._sources[key] = len(self._sources) + 1
            self.put(NAME, self._sources[key], at, key.encode())
        return self._sources[key]

    def fetched(self, source: int, at: int, content: bytes) -> None:
        if self._last.get(source) == content:
            self.put(SAME, source, at, b"")
        else:
            self._last[source] = content
            self._sampled.pop(source, None)
            self.put(FETCHED, source, at, content)

    def sample(
        self,
        source: int,
        at: int,
        *,
        taken: float,
        readings: Sequence[tuple[str, str, float, float, str, str]],
        blind: Sequence[tuple[str, str, str, str]],
        cost: float,
    ) -> None:
        """Readings as (what, subject, value, at, source, text), blind as (what, source, why, subject)."""
        known, unseen = self._unseen.get(source, ((), "[]"))
        if blind != known:
            self._unseen[source] = (blind, unseen := _json(blind))
        elif not readings and 0 <= taken - self._sampled.get(source, -MINUTE) < MINUTE:
            its_at = nanoseconds(taken) - self.ahead if self.ahead else -1
            if its_at >= 0:  # else the wall clock was set back to before the boot
                self.put(SAME, source, its_at, b"")
                return
        self._sampled[source] = taken
        self._last.pop(source, None)  # the same is always the same as the last record
        # By hand: many have no readings, and an encoder takes 15 µs even for that.
        news = _json(readings) if readings else "[]"
        said = f'{{"at":{taken!r},"readings":{news},"blind":{unseen},"cost":{cost!r}}}'
        self.put(SAMPLE, source, at, said.encode())

    def flush(self) -> int:
        """Hand over all of it; returns how many bytes."""
        pieces, short = list[bytes](), list[bytes]()
        for part in self._parts:
            if len(part) < LONG:
                short.append(part)
            else:
                pieces += (b"".join(short), part)
                short.clear()
        pieces.append(b"".join(short))
        self._parts.clear()
        many = sum(map(len, pieces))
        if many:
            self._write(pieces)
            self.bytes += many
        return many

    def put(self, kind: int, source: int, at: int, content: bytes) -> None:
        rest = _REST.pack(len(content), at, source, kind)
        crc = zlib.crc32(content, zlib.crc32(rest))
        self._parts += (crc.to_bytes(_CRC, "little"), rest, content)


class HeadSink:
    """One head after the other. Each is self-contained: the next one begins with every value."""

    def __init__(self, write: Write, events: Sequence[str] = (), boot: str = "") -> None:
        """`boot`: the id of the boot that is recorded."""
        self._boot = boot
        self.events = frozenset(events)  # what happened, not a value that holds: each one is kept
        self.readings = 0  # those left out included
        self.ring_bytes = 0
        self.begin(write)

    def begin(self, write: Write) -> None:
        """A new head."""
        self._head = HeadWriter(write)
        self._rings: dict[tuple[Any, ...], int] = {}
        self._probes: dict[str, int] = {}
        self.changes = Changes()
        self._head.clock(time.monotonic_ns(), ahead_ns())
        if self._boot:
            self._head.source({"boot": self._boot}, time.monotonic_ns())
        if ours := ours_now():
            self.note(ours[0].at, *ours)

    @property
    def clock_was_set(self) -> bool:
        """Since it was last written down."""
        return abs(ahead_ns() - self._head.ahead) >= JUMP_NS

    @property
    def bytes(self) -> int:
        """Of this head, flushed."""
        return self._head.bytes

    def fetched(self, name: str, fetched: Fetched) -> None:
        self._head.fetched(self._probe(name), fetched.at, fetched.content)

    def sample(self, name: str, sample: Sample) -> None:
        events, is_new = self.events, self.changes.is_new
        self._head.sample(
            self._probe(name),
            time.monotonic_ns(),
            taken=sample.at,
            readings=[
                (it.what, it.subject, it.value, it.at, it.source, it.text)
                for it in sample.readings
                if it.what in events or is_new(it)
            ],
            blind=[(it.what, it.source, it.why, it.subject) for it in sample.blind],
            cost=sample.cost,
        )
        self.readings += len(sample.readings)

    def drained(self, event: Event, rings: Iterable[Drained], unknown: Sequence[int] = (), since: int = 0) -> None:
        """What the rings held, as it is. The source says how to read it: rates and stacks change with the budget."""
        at = time.monotonic_ns()
        how = {"event": event.name, "hz": event.hz, "cgroup": event.cgroup, "user": event.user}
        for ring in rings:
            shared = {"share": round(ring.share, 2)} if ring.share < FULL else {}
            source = self._ring({"ring": ring.cpu, **how, **shared})
            if unknown:
                self._head.put(LEFT_OUT, source, since, struct.pack(f"<{len(unknown)}I", *unknown))
                unknown = ()
            if ring.content:
                self._head.put(RING, source, at, ring.content)
                self.ring_bytes += len(ring.content)
            if ring.lost:
                self._head.put(LOST, source, at, struct.pack("<Q", ring.lost))

    def note(self, at: float, *readings: Reading) -> None:
        """What the recorder says of itself."""
        self.sample(RECORDER, Sample(at, readings, (), 0.0))

    def flush(self) -> int:
        """All of it in one write, with the clock as it is set now; returns how many bytes."""
        self._head.clock(time.monotonic_ns(), ahead_ns())
        return self._head.flush()

    def _probe(self, name: str) -> int:
        if name not in self._probes:
            self._probes[name] = self._head.source({"probe": name}, time.monotonic_ns())
        return self._probes[name]

    def _ring(self, what: dict[str, Any]) -> int:
        """Where all numbers are given away, what was named first gives up its own, and is named again if need be."""
        key, rings = tuple(what.values()), self._rings
        if key not in rings and len(rings) < MOST_RINGS:
            rings[key] = self._head.source(what, time.monotonic_ns())
        elif key not in rings:
            rings[key] = rings.pop(next(iter(rings)))
            self._head.put(NAME, rings[key], time.monotonic_ns(), json.dumps(what).encode())
        return rings[key]


class HeadReader:
    """The records of a head in a file, one at a time: a head may be larger than the memory that a reader has."""

    def __init__(self, file: BinaryIO, checked: int = 0) -> None:
        """`checked`: so many bytes are known to be intact, as the `end` of another reader said."""
        self._file, self._checked = file, checked
        self.end = 0  # bytes that are intact, as far as it was read
        self.damage = ""  # why it ended; empty at its end, and where a kill may have torn it
        self.at = 0.0  # unix seconds: of the last record that was delivered

    def __iter__(self) -> Iterator[Record]:
        self._file.seek(0)
        if self._file.read(len(MAGIC)) != MAGIC:
            self.damage = "not a head, or of a later version"
            return
        self.end = len(MAGIC)
        while len(header := self._file.read(_HEADER.size)) == _HEADER.size:
            crc, length, at, source, kind = _HEADER.unpack(header)
            if length > MOST_CONTENT:
                self.damage = f"a record of {length:,} bytes"
                return
            content = self._file.read(length)
            if len(content) < length:
                return
            end = self.end + _HEADER.size + length
            if end > self._checked and zlib.crc32(content, zlib.crc32(header[_CRC:])) != crc:
                self.damage = "a record that is not as it was written"
                return
            self.end = end
            yield Record(kind, source, at, memoryview(content))

    def deliver(self, named: Callable[[memoryview], Take | None]) -> None:
        """Each record to who takes its source; `named` finds out who, from what the head says of a source."""
        ahead: int | None = None
        takers: dict[int, Take | None] = {}
        for record in self:
            if record.kind == NAME:
                takers[record.source] = named(record.content)
            elif record.kind == CLOCK:
                ahead = struct.unpack("<q", record.content)[0] if len(record.content) == 8 else ahead
            else:
                if ahead is not None and 0 <= record.at + ahead < LATEST * 1e9:
                    self.at = seconds(record.at + ahead)
                if (take := takers.get(record.source)) is not None:
                    take(record, ahead)
