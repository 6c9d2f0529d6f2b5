"""The header of a perf.data file: which events were sampled, what each sample holds, where the records are.

The format: tools/perf/Documentation/perf.data-file-format.txt. A file begins with "PERFILE2" (once "PERFFILE"), then
says where three sections are: the events asked for (struct perf_event_attr, of 64 bytes at first and of 136 or more
today, each with its ids), the records, and after them facts about the machine. Data written into a pipe has none of
that: sixteen bytes, then records, the first of which describe the events.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator, Mapping
from typing import NamedTuple

from zombiescope.core.errors import Unparsable
from zombiescope.profile import perf_data_facts as facts

Read = Callable[[int, int], bytes]  # offset and size to bytes: fewer where the file ends

IP, TID, TIME, ADDR, READ, CALLCHAIN, ID, CPU, PERIOD, STREAM_ID, RAW = (1 << bit for bit in range(11))
BRANCH_STACK, REGS_USER, STACK_USER = (1 << bit for bit in (11, 12, 13))
IDENTIFIER, AUX, CGROUP, DATA_PAGE_SIZE, CODE_PAGE_SIZE = (1 << bit for bit in (16, 20, 21, 22, 23))
READ_ENABLED, READ_RUNNING, READ_ID, READ_GROUP, READ_LOST = (1 << bit for bit in range(5))

_MAGICS = (b"PERFILE2", b"PERFFILE")
_SWAPPED = b"2ELIFREP"
_HEAD = struct.Struct("<8s8Q")  # magic, sizes of head and of an event, then offset and size of events, records, types
_ATTR = struct.Struct("<IIQQQQQ")  # type, size, config, period or rate, sample_type, read_format, flags
_BRANCHES_AT, _REGS_AT, _CLOCK_AT = 72, 80, 92  # in an event, each if it is long enough
_FREQUENCY, _SAMPLE_ID_ALL, _USE_CLOCKID = 1 << 10, 1 << 18, 1 << 25
_FEATURES = 256
_MOST_IDS = 1 << 20
_HARDWARE, _SOFTWARE, _TRACEPOINT, _RAW = 0, 1, 2, 4
_NAMES: dict[int, tuple[str, ...]] = {
    _HARDWARE: (
        *("cycles", "instructions", "cache-references", "cache-misses", "branches", "branch-misses", "bus-cycles"),
        *("stalled-cycles-frontend", "stalled-cycles-backend", "ref-cycles"),
    ),
    _SOFTWARE: (
        *("cpu-clock", "task-clock", "page-faults", "context-switches", "cpu-migrations", "minor-faults"),
        *("major-faults", "alignment-faults", "emulation-faults", "dummy", "bpf-output", "cgroup-switches"),
    ),
}
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
    name: str = ""
    branches: int = 0  # branch_sample_type
    registers: int = 0  # a bit for each of a process's registers that samples hold

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
    version: str = ""  # of perf
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
        return header._replace(notes=(note,), compressed=_has(head, facts.COMPRESSED))
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
        name=_usual_name(kind, config),
        branches=_word(raw, _BRANCHES_AT),
        registers=_word(raw, _REGS_AT),
    )


def _word(raw: bytes, at: int) -> int:
    """A word of an event that older ones do not have."""
    return int.from_bytes(raw[at : at + 8], "little") if len(raw) >= at + 8 else 0


def _events(read: Read, source: str, each: int, at: int, total: int, size: int) -> Iterator[Event]:
    # An event, then where its ids are; perf itself takes any size up from the first version's.
    if not 64 + 16 <= each <= 1 << 16 or not total or total % each or at + total > size:
        raise Unparsable(source, 16, f"{total} bytes of events, {each} each, at offset {at} of {size} bytes")
    if total // each > facts.MOST_EVENTS:
        raise Unparsable(source, 32, f"{total // each} events; at most {facts.MOST_EVENTS} are accepted")
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
    found: dict[int, bytes] = {}
    for bit in range(_FEATURES):
        if _has(head, bit):
            place = read(at, 16)
            at += 16
            if len(place) < 16:
                return header._replace(notes=(f"offset {at}: the facts about the machine are cut off",))
            offset, size = struct.unpack("<QQ", place)
            if bit in facts.WANTED and size <= facts.LARGEST:
                found[bit] = read(offset, size)
    return with_facts(header._replace(compressed=_has(head, facts.COMPRESSED)), found)


def with_facts(header: Header, found: Mapping[int, bytes]) -> Header:
    """What the facts say of the machine, of perf and of the events."""
    clock = next((it.clock for it in header.events if it.clock is not None), None)
    return header._replace(
        events=_named(header.events, facts.event_names(found.get(facts.EVENT_DESC, b""))),
        hostname=facts.text_of(found, facts.HOSTNAME),
        kernel=facts.text_of(found, facts.OSRELEASE),
        version=facts.text_of(found, facts.VERSION),
        build_ids=tuple(facts.build_ids(found.get(facts.BUILD_ID, b""))),
        to_unix=facts.to_unix(found.get(facts.CLOCK_DATA, b""), clock),
    )


def _named(events: tuple[Event, ...], told: list[tuple[str, tuple[int, ...]]]) -> tuple[Event, ...]:
    """Events with their names: in the same order, or else by an id that both have."""
    if len(told) == len(events):
        return tuple(it._replace(name=name or it.name) for it, (name, _) in zip(events, told, strict=True))
    by_id = {number: name for name, ids in told for number in ids}
    return tuple(it._replace(name=next((by_id[i] for i in it.ids if i in by_id), it.name)) for it in events)


def _usual_name(kind: int, config: int) -> str:
    """As perf would call an event that has no other name."""
    usual = _NAMES.get(kind, ())
    low = config & 0xFFFFFFFF
    if low < len(usual):
        return usual[low]
    return f"r{config:x}" if kind == _RAW else f"tracepoint {config}" if kind == _TRACEPOINT else f"{kind}:{config:#x}"
