"""How far an Arrow IPC stream is whole, and how large it becomes when it is unpacked, before any of it is unpacked.

A few KB of zstd can hold gigabytes, and Arrow allocates whatever a file claims. Each compressed buffer begins with its
unpacked length, so the sizes are there without unpacking. See format/Message.fbs of Apache Arrow; its flatbuffers are
read here by hand: a table has a list of offsets to its fields.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

_CONTINUES = 0xFFFFFFFF
_DICTIONARY, _ROWS = 2, 3  # kinds of messages that carry data; a schema carries none
_HEADER_KIND, _HEADER, _BODY_LENGTH = 1, 2, 3  # fields of a message
_DATA = 1  # of a dictionary
_BUFFERS, _COMPRESSION = 2, 3  # of rows


@dataclass(frozen=True, slots=True)
class Extent:
    """What was found by walking over the messages."""

    end: int  # bytes up to the end of the last whole message
    unpacked: int  # bytes when all of that is unpacked
    torn: bool  # it ends in the middle of a message, as after a kill
    damage: str  # what is wrong with the message after `end`


def extent(content: bytes) -> Extent:
    """Walk over the messages; never fails."""
    end = unpacked = 0
    try:
        while end < len(content):
            start, body, after = _message(content, end)
            if not start:  # the mark of the end
                return Extent(after, unpacked, torn=False, damage="")
            if after > len(content):
                return Extent(end, unpacked, torn=True, damage="")
            unpacked += _unpacked(content, start, body, after)
            end = after
    except (struct.error, ValueError) as error:
        torn = end + 8 > len(content)
        return Extent(end, unpacked, torn=torn, damage="" if torn else f"not an Arrow message: {error}")
    return Extent(end, unpacked, torn=False, damage="")


def _message(content: bytes, at: int) -> tuple[int, int, int]:
    """Where its description, its body and the next message begin; 0 for the first at the end of the stream."""
    mark, length = struct.unpack_from("<Ii", content, at)
    if mark != _CONTINUES:
        raise ValueError("it does not begin as one")
    if length == 0:
        return 0, 0, at + 8
    body = at + 8 + length
    if length < 0 or body > len(content):
        return at + 8, body, len(content) + 1
    size = _number(content, _root(content, at + 8), _BODY_LENGTH, "<q")
    if size < 0:
        raise ValueError("its length is below zero")
    return at + 8, body, body + size


def _unpacked(content: bytes, start: int, body: int, after: int) -> int:
    message = _root(content, start)
    kind = _number(content, message, _HEADER_KIND, "<B")
    if kind not in (_DICTIONARY, _ROWS):
        return 0
    header = _table(content, message, _HEADER)
    rows = _table(content, header, _DATA) if kind == _DICTIONARY else header
    if not _field(content, rows, _COMPRESSION):
        return after - body
    buffers = _table(content, rows, _BUFFERS)
    (count,) = struct.unpack_from("<I", content, buffers)
    total = 0
    for offset, length in struct.iter_unpack("<qq", content[buffers + 4 : buffers + 4 + 16 * count]):
        if length < 0 or offset < 0 or body + offset + length > after:
            raise ValueError("a buffer lies outside of it")
        if length:
            (size,) = struct.unpack_from("<q", content, body + offset)
            total += length if size == -1 else size  # -1: this one is not compressed
            if size < -1:
                raise ValueError("a buffer's length is below zero")
    return total


def _root(content: bytes, at: int) -> int:
    return at + int(struct.unpack_from("<I", content, at)[0])


def _field(content: bytes, table: int, number: int) -> int:
    """Where a field of a table is; 0 if it has none."""
    offsets = table - int(struct.unpack_from("<i", content, table)[0])
    if offsets < 0:
        raise ValueError("a table without offsets")
    (size,) = struct.unpack_from("<H", content, offsets)
    place = 4 + 2 * number
    offset = int(struct.unpack_from("<H", content, offsets + place)[0]) if place + 2 <= size else 0
    return table + offset if offset else 0


def _number(content: bytes, table: int, number: int, kind: str) -> int:
    place = _field(content, table, number)
    return int(struct.unpack_from(kind, content, place)[0]) if place else 0


def _table(content: bytes, table: int, number: int) -> int:
    place = _field(content, table, number)
    if not place:
        raise ValueError("a part of it is missing")
    return place + int(struct.unpack_from("<I", content, place)[0])
