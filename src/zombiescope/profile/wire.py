"""Protocol buffers on the wire, as far as pprof needs them: numbers, texts and messages, each after its field's number.

The format: protobuf.dev/programming-guides/encoding. Written by hand because a profile needs two of its four kinds,
which is not worth a library.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from zombiescope.core.errors import Unparsable

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_WRAP = 1 << 64


def fields(data: bytes, source: str, begin: int = 0, end: int | None = None) -> Iterator[tuple[int, int | slice]]:
    """Each field's number, and its value or where its bytes are; damage raises Unparsable with the byte offset."""
    at, end = begin, len(data) if end is None else end
    while at < end:
        here = at
        key, at = varint(data, at, end, source)
        field, kind = key >> 3, key & 7
        if kind == _VARINT:
            number, at = varint(data, at, end, source)
            yield field, number
            continue
        if kind == _BYTES:
            length, at = varint(data, at, end, source)
        elif kind in (_FIXED64, _FIXED32):
            length = 8 if kind == _FIXED64 else 4
        else:
            raise Unparsable(source, here, "not the start of a field")
        if length > end - at:
            raise Unparsable(source, here, f"field {field} should have {length} bytes, {end - at} are left")
        yield field, slice(at, at + length)
        at += length


def varint(data: bytes, at: int, end: int, source: str) -> tuple[int, int]:
    """A number, and where it ends."""
    number = shift = 0
    for place in range(at, min(at + 10, end)):
        byte = data[place]
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number & _WRAP - 1, place + 1
        shift += 7
    raise Unparsable(source, at, "a number that does not end")


def parts(data: bytes, at: int, end: int) -> tuple[bytes, bytes, bytes] | None:
    """Of a message of fields 1, 2 and 3 that all hold bytes, 1 and 2 once: the bytes of 1, those of 2, and all fields 3
    as they are written. None if it is of another form: `fields` reads that, five times as slow."""
    first = second = b""
    third, seen = [], 0
    while at < end:
        key, here = data[at], at
        at += 1
        if at >= end:
            return None
        length = data[at]
        at += 1
        if length >= 0x80:
            if at >= end or data[at] >= 0x80:
                return None
            length += (data[at] << 7) - 0x80
            at += 1
        if length > end - at:
            return None
        if key == 0x1A:
            third.append(data[here : at + length])
        elif key == 0x0A and not seen & 1:
            first, seen = data[at : at + length], seen | 1
        elif key == 0x12 and not seen & 2:
            second, seen = data[at : at + length], seen | 2
        else:
            return None
        at += length
    return first, second, b"".join(third)


def numbers(data: bytes, told: int | slice, source: str) -> Iterator[int]:
    """Of a repeated field: one number, or many packed together."""
    if isinstance(told, int):
        yield told
        return
    at = told.start
    while at < told.stop:
        number, at = varint(data, at, told.stop, source)
        yield number


def signed(number: int) -> int:
    """A number as a signed int64."""
    return number - _WRAP if number >> 63 else number


def number(field: int, value: int) -> bytes:
    """A field that holds a number; 0 is not written."""
    return _varint(field << 3 | _VARINT) + _varint(value & _WRAP - 1) if value else b""


def packed(field: int, values: Iterable[int]) -> bytes:
    return message(field, b"".join(_varint(value & _WRAP - 1) for value in values))


def message(field: int, body: bytes) -> bytes:
    """A field that holds bytes: a text or a message."""
    return _varint(field << 3 | _BYTES) + _varint(len(body)) + body


def _varint(value: int) -> bytes:
    if value < 0x80:
        return bytes((value,))
    written = bytearray()
    while value >= 0x80:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)
