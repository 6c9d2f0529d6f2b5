"""Facts about the machine in a perf.data file: behind the records, or as records of their own in data from a pipe.

tools/perf/util/header.h, enum of features: each has a number, which is its bit in the header.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator, Mapping

BUILD_ID, HOSTNAME, OSRELEASE, VERSION, EVENT_DESC, DIR_FORMAT, COMPRESSED, CLOCK_DATA = 2, 3, 4, 5, 12, 24, 27, 29
WANTED = (BUILD_ID, HOSTNAME, OSRELEASE, VERSION, EVENT_DESC, CLOCK_DATA)
LARGEST = 16 << 20  # bytes of one: build-ids of 100,000 files
MOST_EVENTS = 4096  # at worst one per core and event
_MOST_IDS = 1 << 20


def text_of(facts: Mapping[int, bytes], number: int) -> str:
    """A length, then so many bytes with zeros behind the text."""
    return text(facts.get(number, b"")[4:])


def text(raw: bytes) -> str:
    return raw.partition(b"\0")[0].decode("utf-8", "surrogateescape")


def build_ids(data: bytes) -> Iterator[tuple[str, str]]:
    """Records: a header, a pid, 20 bytes of build-id, 4 more that newer ones have their number in, the path."""
    at = 0
    while at + 36 < len(data):
        misc, size = struct.unpack_from("<HH", data, at + 4)
        if size < 36:
            return
        length = data[at + 32] if misc & 1 << 15 else 20
        yield text(data[at + 36 : at + size]), data[at + 12 : at + 12 + min(length, 20)].hex()
        at += size


def event_names(data: bytes) -> list[tuple[str, tuple[int, ...]]]:
    """Each event's name and ids, in the order in which they were asked for; those before any damage."""
    if len(data) < 8:
        return []
    count, attr_size = struct.unpack_from("<II", data)
    at, found, left = 8, list[tuple[str, tuple[int, ...]]](), _MOST_IDS
    for _ in range(min(count, MOST_EVENTS)):
        at += attr_size
        if at + 8 > len(data):
            break
        ids, length = struct.unpack_from("<II", data, at)
        name_at, at = at + 8, at + 8 + length
        left -= ids
        if left < 0 or at + 8 * ids > len(data):
            break
        found.append((text(data[name_at:at]), struct.unpack_from(f"<{ids}Q", data, at)))
        at += 8 * ids
    return found


def to_unix(data: bytes, clock: int | None) -> int | None:
    """`perf record --clockid` stores one moment in both clocks: what to add to the samples' for unix time."""
    if clock == 0:  # CLOCK_REALTIME itself
        return 0
    if len(data) < 24:
        return None
    _version, told, unix, its_own = struct.unpack_from("<IIQQ", data)
    return unix - its_own if told == clock and unix < 1 << 62 and its_own < 1 << 62 else None
