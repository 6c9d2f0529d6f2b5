"""The header of a perf.data file: which events were sampled, what each sample holds, where the records are.

The format: tools/perf/Documentation/perf.data-file-format.txt. A file begins with "PERFILE2" (once "PERFFILE"), then
says where three sections are: the events asked for (struct perf_event_attr, of 64 bytes at first and of 136 or more
today, each with its ids), the records, and after them facts about the machine. Data written into a pipe has none of
that: sixteen bytes, then records, the first of which describe the events.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import NamedTuple

from zombiescope.core.errors import Unparsable

Read = Callable[[int, int], bytes]  # offset and size to bytes: fewer where the file ends

IP, TID, TIME, ADDR, READ, CALLCHAIN, ID, CPU, PERIOD, STREAM_ID, RAW = (1 << bit for bit in range(11))
IDENTIFIER, AUX, CGROUP, DATA_PAGE_SIZE, CODE_PAGE_SIZE = (1 << bit for bit in (16, 20, 21, 22, 23))
READ_ENABLED, READ_RUNNING, READ_ID, READ_GROUP, READ_LOST = (1 << bit for bit in range(5))

_MAGICS = (b"PERFILE2", b"PERFFILE")
_SWAPPED = b"2ELIFREP"
_HEAD = struct.Struct("<8s8Q")  # magic, sizes of head and of an event, then offset and size of events, records, types
_ATTR = struct.Struct("<IIQQQQQ")  # type, size, config, period or rate, sample_type, read_format, flags
_CLOCK_AT = 88  # in an event: __s32 clockid, since v4.1
_FREQUENCY, _SAMPLE_ID_ALL, _USE_CLOCKID = 1 << 10, 1 << 18, 1 << 25
_BUILD_ID, _HOSTNAME, _OSRELEASE, _COMPRESSED, _CLOCK_DATA = 2, 3, 4, 27, 29  # bits of the features
_FEATURES = 256
_MOST_EVENTS = 4096  # at worst one per core and event
_MOST_IDS = 1 << 20
_LARGEST_FACT = 16 << 20  # build-ids of 100,000 files
_HARDWARE, _SOFTWARE = 0, 1
_CPU_CLOCK, _TASK_CLOCK, _DUMMY = 0, 1, 9


class Event(NamedTuple):
    """One event that was asked for, and what its samples hold."""

    kind: int
    config: int
    every: int  # its period, or its rate if `by_rate`
    by_rate: bool
    sample_type: int
    read_format: int
    trailed: bool  # sample_id_all: all other records say who, when and where as well
    clock: int | None  # of clock_gettime(2), if it was chosen
    ids: tuple[int, ...] = ()

    @property
    def what(self) -> tuple[int, int]:
        """What is counted. Of machines with two kinds of cores, `config` says above bit 32 which of them."""
        return self.kind, self.config & 0xFFFFFFFF if self.kind == _HARDWARE else self.config

    @property
    def is_dummy(self) -> bool:
        return (self.kind, self.config) == (_SOFTWARE, _DUMMY)

    @property
    def hz(self) -> float:
        if self.by_rate:
            return float(self.every)
        a_clock = self.kind == _SOFTWARE and self.config in (_CPU_CLOCK, _TASK_CLOCK)
        return 1e9 / self.every if a_clock and self.every else 0.0


class Header(NamedTuple):
    """Where the records are, and what is known of them."""

    events: tuple[Event, ...]  # not known yet for data from a pipe
    start: int
    end: int
    compressed: bool = False
    hostname: str = ""
    kernel: str = ""
    build_ids: tuple[tuple[str, str], ...] = ()  # path and build-id in hexadecimal
    to_unix: int | None = None  # nanoseconds to add to the samples' clock for unix time, if the file has it
    notes: tuple[str, ...] = ()


def parse(read: Read, size: int, source: str) -> Header:
    """Parse the header of a file of `size` bytes. Damage after the events becomes a note."""
    head = read(0, _HEAD.size + _FEATURES // 8)
    if head[:8] == _SWAPPED:
        raise Unparsable(
            source, 0, "perf.data of a big-endian machine: run `perf script` on that machine and use its output"
        )
    if head[:8] not in _MAGICS or len(head) < 16:
        raise Unparsable(source, 0, f"{size} bytes that begin with {head[:8]!r}: not perf.data")
    length = int.from_bytes(head[8:16], "little")
    if length == 16:
        return Header(events=(), start=16, end=size)
    if length not in (_HEAD.size, _HEAD.size + _FEATURES // 8) or len(head) < length:
        raise Unparsable(source, 8, f"a header of {length} bytes in a file of {size}; 16, 72 and 104 are known")
    _, _, each, at, total, start, records, _, _ = _HEAD.unpack_from(head)
    events = tuple(_events(read, source, each, at, total, size))
    if not _HEAD.size <= start <= size:
        raise Unparsable(source, 40, f"records at offset {start} of a file of {size} bytes")
    # perf writes the size last: one that was killed, or crashed while it collected build-ids, never did.
    if not records:
        note = f"offset 48: the size of the records was never written (perf record was killed?); read up to byte {size}"
        return Header(events=events, start=start, end=size, notes=(note,))
    header = Header(events=events, start=start, end=min(start + records, size))
    if start + records > size:
        note = f"cut off: {size} bytes, of {start + records}"
        return header._replace(notes=(note,), compressed=_has(head, _COMPRESSED))
    return _told(header, read, head, start + records)


def event(raw: bytes, ids: tuple[int, ...] = ()) -> Event:
    """A struct perf_event_attr of at least 64 bytes."""
    kind, _, config, every, sample_type, read_format, flags = _ATTR.unpack_from(raw)
    chosen = flags & _USE_CLOCKID and len(raw) >= _CLOCK_AT + 4
    return Event(
        kind=kind,
        config=config,
        every=every,
        by_rate=bool(flags & _FREQUENCY),
        sample_type=sample_type,
        read_format=read_format,
        trailed=bool(flags & _SAMPLE_ID_ALL),
        clock=int.from_bytes(raw[_CLOCK_AT : _CLOCK_AT + 4], "little", signed=True) if chosen else None,
        ids=ids,
    )


def _events(read: Read, source: str, each: int, at: int, total: int, size: int) -> Iterator[Event]:
    # An event, then where its ids are; perf itself takes any size up from the first version's.
    if not 64 + 16 <= each <= 1 << 16 or not total or total % each or at + total > size:
        raise Unparsable(source, 16, f"{total} bytes of events, {each} each, at offset {at} of {size} bytes")
    if total // each > _MOST_EVENTS:
        raise Unparsable(source, 32, f"{total // each} events; at most {_MOST_EVENTS} are accepted")
    left = _MOST_IDS
    for place in range(at, at + total, each):
        raw = read(place, each)
        ids_at, ids_size = struct.unpack_from("<QQ", raw, each - 16)
        if ids_size % 8 or ids_at + ids_size > size or ids_size > 8 * left:
            raise Unparsable(source, place + each - 16, f"{ids_size} bytes of ids at offset {ids_at} of {size} bytes")
        left -= ids_size // 8
        yield event(raw[: each - 16], struct.unpack(f"<{ids_size // 8}Q", read(ids_at, ids_size)))


def _has(head: bytes, bit: int) -> bool:
    at = _HEAD.size + bit // 8
    return at < len(head) and bool(head[at] >> bit % 8 & 1)


def _told(header: Header, read: Read, head: bytes, at: int) -> Header:
    """The facts after the records: for each bit that is set, in order, its offset and size."""
    facts: dict[int, bytes] = {}
    for bit in range(_FEATURES):
        if _has(head, bit):
            place = read(at, 16)
            at += 16
            if len(place) < 16:
                return header._replace(notes=(f"offset {at}: the facts about the machine are cut off",))
            offset, size = struct.unpack("<QQ", place)
            if bit in (_BUILD_ID, _HOSTNAME, _OSRELEASE, _CLOCK_DATA) and size <= _LARGEST_FACT:
                facts[bit] = read(offset, size)
    return header._replace(
        compressed=_has(head, _COMPRESSED),
        hostname=_text(facts.get(_HOSTNAME, b"")[4:]),
        kernel=_text(facts.get(_OSRELEASE, b"")[4:]),
        build_ids=tuple(build_ids(facts.get(_BUILD_ID, b""))),
        to_unix=_to_unix(facts.get(_CLOCK_DATA, b""), header.events),
    )


def build_ids(data: bytes) -> Iterator[tuple[str, str]]:
    """Records: a header, a pid, 20 bytes of build-id, 4 more that newer ones have their number in, the path."""
    at = 0
    while at + 36 < len(data):
        misc, size = struct.unpack_from("<HH", data, at + 4)
        if size < 36:
            return
        length = data[at + 32] if misc & 1 << 15 else 20
        yield _text(data[at + 36 : at + size]), data[at + 12 : at + 12 + min(length, 20)].hex()
        at += size


def _to_unix(data: bytes, events: tuple[Event, ...]) -> int | None:
    """`perf record --clockid` stores one moment in both clocks."""
    clock = next((it.clock for it in events if it.clock is not None), None)
    if clock == 0:  # CLOCK_REALTIME itself
        return 0
    if len(data) < 24:
        return None
    _version, told, unix, its_own = struct.unpack_from("<IIQQ", data)
    return unix - its_own if told == clock and unix < 1 << 62 and its_own < 1 << 62 else None


def _text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "surrogateescape")
