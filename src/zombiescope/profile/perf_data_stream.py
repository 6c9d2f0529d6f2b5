"""Records that are not aligned, or packed with zstd: what `perf record -z` and `perf record -o -` write.

perf feeds all that it reads from the rings into one zstd stream that it flushes and never ends, and writes what comes
out in records of its own: COMPRESSED (v5.2), of any number of bytes, so that what follows is not aligned, and later
COMPRESSED2, padded, with the number of bytes that count. A record of the kernel's may begin in one of them and end in
the next. Records that perf makes itself stand between them as they are; into a pipe it writes some of any size.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any

from zombiescope.profile.perf_data_header import Read
from zombiescope.profile.perf_data_records import (
    AUXTRACE,
    COMPRESSED,
    COMPRESSED2,
    PIECE,
    TRACING_DATA,
    Piece,
    bad,
    cut,
    cut_short,
)

_HEAD = struct.Struct("<IHH")
# The end of a zstd frame, which perf does not write: a last block that is empty (RFC 8878, 3.1.1.2).
_END = b"\x01\x00\x00"
_HIGHEST_SIZE = 0xFFF8  # what fits into a header after padding
_STEP = 8 << 10  # bytes unpacked at a time: damage costs no more than this
_MOST_PLAIN = 256 << 20  # bytes of records in a row that are not packed: tasks and mappings of 10,000 processes
_LARGEST = 64 << 30  # bytes, unpacked: a few kilobytes can hold as many


def pieces(read: Read, start: int, end: int, notes: list[str]) -> Iterator[Piece]:
    """All records between two offsets of a file, packed or not."""
    outer = _Outer(read, start, end, notes)
    while outer.step() and not outer.packed:
        if outer.size >= PIECE:
            yield outer.plain()
    yield outer.plain()
    left = b""
    for raw in _unpacked(outer, notes) if outer.packed else ():
        whole = left + raw
        piece, used = cut(whole)
        yield piece
        left = whole[used:]
        if left and not cut_short(left, 0):
            notes.append(f"before offset {outer.at}: {bad(left, 0)} in what was unpacked; the rest is not read")
            break
        if outer.size >= PIECE:
            yield outer.plain()
    else:
        if left:
            notes.append(f"offset {outer.at}: a record is cut off after {len(left)} bytes")
    yield outer.plain()


class _Outer:
    """Record after record; also a file for the unpacker: the packed bytes in a row. Other records are put aside."""

    closed = False

    def __init__(self, read: Read, start: int, end: int, notes: list[str]) -> None:
        self._read, self.at, self._end, self._notes = read, start, end, notes
        self._window, self._window_at = b"", start
        self._ended = self._any_packed = False
        self.packed = bytearray()
        self._plain: list[bytes] = []
        self.size = 0

    def read(self, size: int = -1) -> bytes:
        while not self.packed and self.step():
            if self.size > _MOST_PLAIN:
                self._notes.append(f"offset {self.at}: too much data between packed records; the rest is not read")
                self._end = self.at
        found = bytes(self.packed[: size if size >= 0 else None])
        del self.packed[: len(found)]
        return found

    def close(self) -> None:
        self.closed = True

    def plain(self) -> Piece:
        """The records put aside so far."""
        piece, _ = cut(b"".join(self._plain))
        self._plain, self.size = [], 0
        return piece

    def step(self) -> bool:
        """Take one record; False at the end."""
        if self._ended:
            return False
        head = self._bytes(0, 8)
        kind, misc, size = _HEAD.unpack(head) if len(head) == 8 else (0, 0, 0)
        body = self._bytes(8, size - 8) if size > 8 else b""
        if size < 8 or len(body) < size - 8:
            if self.at < self._end:
                why = f"no record has kind {kind} and {size} bytes" if head and size < 8 else "a record is cut off"
                self._notes.append(f"offset {self.at}: {why}; {self._end - self.at} bytes from there on are not read")
            self.packed += _END if self._any_packed else b""
            self._ended = True
            return False
        self.at += size
        if kind in (COMPRESSED, COMPRESSED2):
            self.packed += body if kind == COMPRESSED else body[8 : 8 + int.from_bytes(body[:8], "little")]
            self._any_packed = True
        elif kind == AUXTRACE:
            self.at += int.from_bytes(body[:8], "little")
        elif kind == TRACING_DATA:
            self.at += int.from_bytes(body[:4], "little") + 7 & ~7
        elif size <= _HIGHEST_SIZE:
            padding = -size % 8
            self._plain.append(_HEAD.pack(kind, misc, size + padding) + body + bytes(padding))
            self.size += size + padding
        return True

    def _bytes(self, offset: int, size: int) -> bytes:
        at = self.at + offset - self._window_at
        if at < 0 or at + size > len(self._window):
            self._window_at, at = self.at + offset, 0
            self._window = self._read(self._window_at, max(min(PIECE, self._end - self._window_at), 0))
        return self._window[at : at + size]


def _unpacked(outer: _Outer, notes: list[str]) -> Iterator[bytes]:
    """The unpacked data, in pieces."""
    import pyarrow as pa

    parts: list[bytes] = []
    size = total = 0
    try:
        stream: Any = pa.CompressedInputStream(pa.PythonFile(outer, mode="r"), "zstd")
        while (raw := stream.read(_STEP)) and total < _LARGEST:
            parts.append(raw)
            size += len(raw)
            total += len(raw)
            if size >= PIECE:
                yield b"".join(parts)
                parts, size = [], 0
    except (OSError, pa.ArrowException) as error:
        notes.append(f"before offset {outer.at}: cannot be unpacked any further: {error}")
    if parts:
        yield b"".join(parts)
