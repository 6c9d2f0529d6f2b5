"""Where a function's caller is: the call frame information of a program or library (.eh_frame), address by address.

The formats: DWARF 5, 6.4; Linux Standard Base, "Exception Frames". Section .eh_frame_hdr has a table of all functions
in order of their addresses, so only what is asked for is read. x86-64 only.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from zombiescope.core.errors import Unparsable
from zombiescope.naming.contents import Contents
from zombiescope.profile.unwind_program import Reader, Rules, run

_LOAD, _NOTE, _EH_FRAME = 1, 4, 0x6474E550  # kinds of program headers
_PROGRAM, _NOTE_SECTION, _IN_MEMORY, _TABLE = 1, 7, 2, b".eh_frame_hdr\0"  # kinds and flag of sections, and a name
_LARGEST_TABLE = 16 << 20  # bytes: two million functions, as of the largest program that is named
_LARGEST_ENTRY = 1 << 16  # bytes
_MOST_HEADERS = 256
_PROGRAM_SIZE, _SECTION_SIZE = 56, 64  # bytes of a header
_MOST_KEPT = 1 << 17  # addresses whose rules are remembered
_SORTED_PAIRS = 0x3B  # the encoding of every linker: signed 32 bits, from the table's own address
_NOTHING = np.empty(0, np.int32)


class _Segment(NamedTuple):
    offset: int
    address: int
    size: int


class Tables:
    """The rules of one file. Whatever is damaged has none."""

    def __init__(self, contents: Contents, source: str) -> None:
        self._contents, self.build_id = contents, ""
        self._segments: list[_Segment] = []
        self._base = 0  # the address of the table, from which it counts
        self._starts: npt.NDArray[np.int32] = _NOTHING
        self._entries: npt.NDArray[np.int32] = _NOTHING
        self.known: dict[int, Rules | None] = {}  # by address, of those asked for
        try:
            header = self._headers(source)
            if header is not None:
                self._table(header)
        except (struct.error, IndexError, Unparsable):
            self._starts = _NOTHING

    def __bool__(self) -> bool:
        return len(self._starts) > 0

    def address(self, offset: int) -> int | None:
        """The address, as the file counts them, of what is at an offset of the file."""
        for segment in self._segments:
            if segment.offset <= offset < segment.offset + segment.size:
                return offset - segment.offset + segment.address
        return None

    def rules(self, address: int) -> Rules | None:
        """How to find the caller of what runs at an address; None where the file does not say."""
        if address not in self.known:
            if len(self.known) > _MOST_KEPT:
                self.known.clear()
            try:
                self.known[address] = self._found(address)
            except (struct.error, IndexError, Unparsable):
                self.known[address] = None
        return self.known[address]

    def _headers(self, source: str) -> _Segment | None:
        head = self._contents.read(0, 64)
        if head[:6] != b"\x7fELF\x02\x01" or len(head) < 64 or head[18:20] != b"\x3e\x00":
            raise Unparsable(source, 0, "not a 64-bit x86 file")
        (at,) = struct.unpack_from("<Q", head, 32)
        size, count = struct.unpack_from("<HH", head, 54)
        if count and size != _PROGRAM_SIZE:
            raise Unparsable(source, 54, f"headers of {size} bytes, not of {_PROGRAM_SIZE}")
        found = None
        for number in range(min(count, _MOST_HEADERS)):
            raw = self._contents.read(at + number * size, size)
            kind, _flags, offset, address, _, length, _, _ = struct.unpack("<IIQQQQQQ", raw)
            if kind == _LOAD:
                self._segments.append(_Segment(offset, address, length))
            elif kind == _NOTE and not self.build_id:
                self.build_id = _build_id(self._contents.read(offset, min(length, _LARGEST_ENTRY)))
            elif kind == _EH_FRAME:
                found = _Segment(offset, address, length)
        return found or self._sections(head, source)

    def _sections(self, head: bytes, source: str) -> _Segment | None:
        """The same by sections: what `perf inject --jit` makes of a function has no program header for its tables."""
        (at,) = struct.unpack_from("<Q", head, 40)
        size, count, of_names = struct.unpack_from("<HHH", head, 58)
        if count and size != _SECTION_SIZE:
            raise Unparsable(source, 58, f"headers of {size} bytes, not of {_SECTION_SIZE}")
        raw = [self._contents.read(at + number * size, size) for number in range(min(count, _MOST_HEADERS))]
        told = [struct.unpack("<IIQQQQIIQQ", it) for it in raw]
        if of_names >= len(told):
            return None
        names = self._contents.read(told[of_names][4], _LARGEST_ENTRY)
        found = None
        for name, kind, flags, address, offset, length, *_ in told:
            if kind == _NOTE_SECTION and not self.build_id:
                self.build_id = _build_id(self._contents.read(offset, min(length, _LARGEST_ENTRY)))
            elif kind == _PROGRAM and flags & _IN_MEMORY:
                self._segments.append(_Segment(offset, address, length))
                if names[name : name + len(_TABLE)] == _TABLE:
                    found = self._segments[-1]
        return found

    def _table(self, header: _Segment) -> None:
        raw = self._contents.read(header.offset, min(header.size, _LARGEST_TABLE))
        reader = Reader(raw, header.address)
        if reader.byte() != 1:
            return
        frame, counted, kind = reader.byte(), reader.byte(), reader.byte()
        reader.pointer(frame)
        count = reader.pointer(counted)
        if kind != _SORTED_PAIRS or not 0 < count <= (len(raw) - reader.at) // 8:
            return
        pairs = np.frombuffer(raw, "<i4", 2 * count, reader.at)
        self._base, self._starts, self._entries = header.address, pairs[::2].copy(), pairs[1::2].copy()

    def _entry(self, address: int) -> Reader:
        """The bytes of an entry behind its length."""
        for segment in self._segments:
            if segment.address <= address < segment.address + segment.size:
                at = segment.offset + address - segment.address
                (length,) = struct.unpack("<I", self._contents.read(at, 4))
                if not 4 <= length <= _LARGEST_ENTRY:
                    break
                return Reader(self._contents.read(at + 4, length), address + 4)
        raise Unparsable("", address, "no such entry")

    def _found(self, address: int) -> Rules | None:
        # A key of another type would have all of them converted.
        wanted = np.int32(min(max(address - self._base, -1 << 31), (1 << 31) - 1))
        place = int(np.searchsorted(self._starts, wanted, side="right")) - 1
        if place < 0:
            return None
        entry = self._entry(int(self._entries[place]) + self._base)
        behind = entry.address
        common = self._entry(behind - entry.number("<I"))
        if common.number("<I"):
            return None
        version, augmentation = common.byte(), common.text()
        if version not in (1, 3):
            return None
        code, data = common.unsigned(), common.signed()
        common.byte() if version == 1 else common.unsigned()  # the return address is register 16
        encoding, signal = 0, "S" in augmentation
        if augmentation.startswith("z"):
            begins = common.unsigned() + common.at
            for letter in augmentation[1:]:
                if letter == "R":
                    encoding = common.byte()
                elif letter == "P":
                    common.pointer(common.byte())
                elif letter == "L":
                    common.byte()
            common.at = begins
        start = entry.pointer(encoding)
        length = entry.pointer(encoding & 0x0F)
        if not start <= address < start + length:
            return None
        if augmentation.startswith("z"):
            entry.at += entry.unsigned()
        return run(common, entry, (code, data, encoding), start, address, signal=signal)


def _build_id(notes: bytes) -> str:
    """In hexadecimal; empty if it is not among these notes."""
    at = 0
    while at + 12 <= len(notes):
        name, length, kind = struct.unpack_from("<III", notes, at)
        begins = at + 12 + (name + 3 & ~3)
        if kind == 3 and notes[at + 12 : at + 16] == b"GNU\0":
            return notes[begins : begins + length].hex()
        at = begins + (length + 3 & ~3)
    return ""
