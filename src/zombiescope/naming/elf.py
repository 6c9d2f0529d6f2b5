"""Read an ELF file for what a profile needs: its build-id, and the function at an offset of the file.

The format: elf(5). A sample gives an offset in a mapped file; program headers turn it into the virtual address that
symbol tables use. The input is not trusted: a header that is not an ELF header raises Unparsable (with the byte offset
in place of the line); tables outside the file are cut or left out. Only tables are read, each of them bounded.
"""

from __future__ import annotations

import os
import struct
from typing import NamedTuple

import numpy as np

from zombiescope.core.errors import Unparsable
from zombiescope.naming.contents import Contents, Held
from zombiescope.naming.elf_records import CLASS_32, CLASS_64, PROGRAM, SECTION, SYMBOL, Table, records
from zombiescope.naming.functions import Functions
from zombiescope.naming.ranges import Addresses, Indexes, Ranges
from zombiescope.naming.stubs import X86_64, Stubs

_MAGIC = b"\x7fELF"
_PT_LOAD, _PT_NOTE, _PF_X = 1, 4, 1
_SHT_SYMTAB, _SHT_STRTAB, _SHT_NOTE, _SHT_NOBITS, _SHT_DYNSYM = 2, 3, 7, 8, 11
_SHF_EXECINSTR, _SHF_COMPRESSED = 1 << 2, 1 << 11
_STT_NOTYPE = 0
_NT_GNU_BUILD_ID = 3
_MANY = 0xFFFF  # PN_XNUM, SHN_XINDEX: the number does not fit the header and is in the first section

_MOST_SEGMENTS = 1024  # a linker writes some ten
_MOST_SECTIONS = 1 << 17  # a program of one section a function, not linked yet, has some ten thousand
_MOST_NOTES = 4096  # libc has some hundred (SystemTap probes), and the build-id is among the first
# Of both tables together; a browser with everything linked in has one million. All nested, a million take 4 s.
_MOST_SYMBOLS = 2 << 20
_LARGEST_NOTES = 4 << 20  # bytes, of all sections together
_LARGEST_NAMES = 128 << 20  # bytes of names, of both tables together; of that browser 90 MB
_NAME_ON_AVERAGE = 1024  # bytes, at most: few symbols have few names. C++ with many templates has 100 to 200
_MOST_SUFFIXES = 8  # names of sections that end alike: .plt, .rela.plt
_LONGEST_LINK = 512  # a name of 255 bytes, and a checksum
_LONGEST_ID = 64  # SHA-1 has 20 bytes, the longest hash in use 64
_LARGEST_MINI = 16 << 20  # unpacked: 150,000 functions. Mini debug information may be a decompression bomb
_PIECE = 1 << 20
_MINI_MEMORY = 72 << 20  # what xz -9 needs to unpack is 65 MB, of which it touches as much as it unpacks


class DebugLink(NamedTuple):
    """What a stripped program says of its debug file (.gnu_debuglink)."""

    name: str
    checksum: int  # CRC-32 of the whole file


class Elf:
    """One file: `build_id` in hexadecimal ("" for none), and its functions by file offset.

    `stripped`: it has no symbols but those of dynamic linking; `debug_link` then says where the others may be.
    """

    def __init__(
        self,
        build_id: str,
        segments: Table,
        tables: tuple[Functions, ...],
        stubs: Stubs | None,
        debug_link: DebugLink | None = None,
    ) -> None:
        self.build_id, self.debug_link, self._stubs = build_id, debug_link, stubs
        self.stripped = not tables or not tables[0]
        self._program = segments
        self._tables = tuple(table for table in tables if table)
        offsets, addresses = segments["offset"].astype(np.uint64), segments["vaddr"].astype(np.uint64)
        self._segments = Ranges(offsets, segments["filesz"].astype(np.uint64))
        self._shifts: Addresses = addresses - offsets  # wraps around where the address is the smaller one, and back

    @classmethod
    def parse(cls, data: bytes | memoryview | Contents, source: str = "ELF file") -> Elf:
        """Parse the file's whole contents, or its beginning: what is missing is left out."""
        return _Reader(Held(data) if isinstance(data, bytes | memoryview) else data, source).elf()

    @property
    def functions(self) -> list[tuple[int, int, str]]:
        """Virtual address, size and symbol of every function there is, table by table."""
        return [row for table in self._tables for row in table.listed()]

    def __len__(self) -> int:
        return sum(len(table) for table in self._tables)

    def __bool__(self) -> bool:
        """Whether it names any function: known without sorting them."""
        return bool(self._tables)

    @property
    def memory(self) -> int:
        """Bytes held: callers keep many of these, and bound them. Texts that tables share count once."""
        stubs = 0 if self._stubs is None else self._stubs.memory
        texts = {id(table.strings): len(table.strings) for table in self._tables}
        return 1024 + stubs + sum(texts.values()) + sum(table.memory for table in self._tables)

    def named_by(self, debug: Elf) -> Elf:
        """This file with the symbols of its separate debug file, whose own program headers are not usable."""
        return Elf(self.build_id, self._program, debug._tables + self._tables, self._stubs)

    def addresses(self, file_offsets: Addresses) -> tuple[Addresses, Indexes]:
        """The virtual address of each offset, and the number of its segment: -1 where none maps it."""
        segment = self._segments.find(file_offsets)
        shift = self._shifts[np.maximum(segment, 0)] if len(self._shifts) else np.uint64(0)
        return file_offsets + shift, segment

    def name(self, file_offset: int) -> str | None:
        """The function that holds an offset of the file, None for none."""
        segment = self._segments.find_one(file_offset) if 0 <= file_offset < 1 << 64 else -1
        if segment < 0:
            return None
        address = (file_offset + int(self._shifts[segment])) & (1 << 64) - 1
        for table in self._tables:
            if (number := table.find_one(address)) >= 0:
                return table.name(number)
        return None if self._stubs is None else self._stubs.names([address])[0]

    def names(self, file_offsets: Addresses) -> list[str | None]:
        """The function that holds each offset; from .symtab, else .dynsym, else the mini debug information."""
        addresses, segment = self.addresses(file_offsets.astype(np.uint64, copy=False))
        names: list[str | None] = [None] * len(addresses)
        unnamed = np.flatnonzero(segment >= 0)
        for table in self._tables:
            if not len(unnamed):
                break
            found = table.find(addresses[unnamed])
            made: dict[int, str] = {}
            for place, number in zip(unnamed.tolist(), found.tolist(), strict=True):
                if number >= 0:
                    names[place] = made[number] = made.get(number) or table.name(number)
            unnamed = unnamed[found < 0]
        if self._stubs is not None:
            for place, name in zip(unnamed.tolist(), self._stubs.names(addresses[unnamed].tolist()), strict=True):
                names[place] = name
        return names


class _Reader:
    def __init__(self, file: Contents, source: str) -> None:
        self._file, self._source = file, source
        self._symbols_left, self._names_left = _MOST_SYMBOLS, _LARGEST_NAMES
        view = file.read(0, 64)
        if len(view) < 52 or view[:4] != _MAGIC:
            raise Unparsable(source, 0, f"{file.size} bytes that begin with {view[:4]!r}: not an ELF file")
        self._class, encoding = view[4], view[5]
        if self._class not in (CLASS_32, CLASS_64) or encoding not in (1, 2):
            raise Unparsable(source, 4, f"class {self._class} and encoding {encoding}, not 1 or 2")
        self._order = "<>"[encoding - 1]
        rest = struct.Struct(self._order + ("HHIQQQIHHHHHH" if self._class == CLASS_64 else "HHIIIIIHHHHHH"))
        if len(view) < 16 + rest.size:
            raise Unparsable(source, 16, f"{len(view)} bytes, shorter than an ELF header")
        _type, self._machine, _version, _entry, self._phoff, self._shoff, _flags, _size, *counts = rest.unpack_from(
            view, 16
        )
        self._phentsize, self._phnum, self._shentsize, self._shnum, self._shstrndx = counts
        self._sections = self._section_headers()
        self._segments = self._program_headers()

    def elf(self, *, mini: bool = True) -> Elf:
        dynamic = self._symbols(_SHT_DYNSYM)
        whole = self._symbols(_SHT_SYMTAB)
        tables = [self._functions(*whole), self._functions(*dynamic), self._functions(*whole, labels=True)]
        if mini and not tables[0]:  # it holds what was stripped of .symtab
            tables += self._mini_debug_information()
        loads = self._segments[self._segments["type"] == _PT_LOAD][:_MOST_SEGMENTS]
        code = loads[loads["flags"] & _PF_X != 0]
        link = None if tables[0] else self._debug_link()
        stubs = Stubs(self._section, *dynamic) if (self._machine, self._class) == (X86_64, CLASS_64) else None
        # Two segments may share a page of the file; samples are from the one that can be executed.
        return Elf(self._build_id(), code if len(code) else loads, tuple(tables), stubs, link)

    def _section_headers(self) -> Table:
        layout, size = SECTION[self._class], self._shentsize
        if not self._shoff:
            return records(self._file, self._source, self._order, layout, (0, layout.size, 0))
        first = records(self._file, self._source, self._order, layout, (self._shoff, size, 1))
        if len(first) and not self._shnum:
            self._shnum = int(first["size"][0])
        if len(first) and self._phnum == _MANY:
            self._phnum = int(first["info"][0])
        if len(first) and self._shstrndx == _MANY:
            self._shstrndx = int(first["link"][0])
        return records(
            self._file, self._source, self._order, layout, (self._shoff, size, min(self._shnum, _MOST_SECTIONS))
        )

    def _program_headers(self) -> Table:
        layout = PROGRAM[self._class]
        place = (self._phoff, self._phentsize, min(self._phnum, _MANY)) if self._phnum else (0, layout.size, 0)
        return records(self._file, self._source, self._order, layout, place)

    def _contents(self, number: int) -> tuple[int, int]:
        section = self._sections[number]
        if section["type"] == _SHT_NOBITS or int(section["flags"]) & _SHF_COMPRESSED:
            return 0, 0
        offset = min(int(section["offset"]), self._file.size)
        return offset, min(int(section["size"]), self._file.size - offset)

    # ELF allows one table of each kind; the first is taken, so many that claim the same bytes cost no more than one.
    def _symbols(self, kind: int) -> tuple[Table, bytes]:
        sections, layout = self._sections, SYMBOL[self._class]
        place, names_at, names = (0, layout.size, 0), 0, 0
        for number in np.flatnonzero(sections["type"] == kind)[:1].tolist():
            link, size = int(sections["link"][number]), int(sections["entsize"][number])
            if link < len(sections) and sections["type"][link] == _SHT_STRTAB and size == layout.size:
                offset, length = self._contents(number)
                place = (offset, size, min(length // size, self._symbols_left))
                names_at, names = self._contents(link)
        symbols = records(self._file, self._source, self._order, layout, place)
        strings = self._file.read(names_at, min(names, self._names_left, len(symbols) * _NAME_ON_AVERAGE))
        self._symbols_left -= len(symbols)
        self._names_left -= len(strings)
        return symbols, strings

    def _functions(self, symbols: Table, strings: bytes, *, labels: bool = False) -> Functions:
        """Or what hand-written assembly calls one, without saying so: `_start` of ld.so."""
        sections = self._sections
        if labels:
            code = np.append(sections["flags"] & _SHF_EXECINSTR != 0, False)  # special sections hold none
            inside = code[np.minimum(symbols["shndx"], len(sections))]
            symbols = symbols[(symbols["info"] & 15 == _STT_NOTYPE) & inside]
        ends = sections["addr"].astype(np.uint64) + sections["size"].astype(np.uint64)
        return Functions(symbols, strings, ends, self._machine, labels=labels)

    def _build_id(self) -> str:
        left, bytes_left = _MOST_NOTES, _LARGEST_NOTES
        for table, kind, field in ((self._sections, _SHT_NOTE, "size"), (self._segments, _PT_NOTE, "filesz")):
            for entry in table[table["type"] == kind][:_MOST_NOTES]:
                align = 8 if entry["align"] == 8 else 4
                notes = self._file.read(int(entry["offset"]), min(int(entry[field]), bytes_left))
                bytes_left -= len(notes)
                at = 0
                while at + 12 <= len(notes) and left:
                    left -= 1
                    name, length, note = struct.unpack_from(self._order + "III", notes, at)
                    text = at + -(-(12 + name) // align) * align
                    if (note, name) == (_NT_GNU_BUILD_ID, 4) and notes[at + 12 : at + 16] == b"GNU\0":
                        return notes[text : text + min(length, _LONGEST_ID)].hex()
                    at = text + -(-length // align) * align
        return ""

    # Fedora, Red Hat and Amazon Linux keep the names of functions in a compressed ELF file inside of each program.
    def _mini_debug_information(self) -> list[Functions]:
        raw = _unpacked(self._section(b".gnu_debugdata", _LARGEST_MINI)[1])
        if not raw:
            return []
        try:
            return list(_Reader(Held(raw), self._source).elf(mini=False)._tables)
        except Unparsable:  # damaged, while the file itself is not
            return []

    # The name of the debug file, padded to a multiple of four bytes, and its checksum.
    def _debug_link(self) -> DebugLink | None:
        raw = self._section(b".gnu_debuglink", _LONGEST_LINK)[1]
        name = raw.partition(b"\0")[0]
        at = len(name) + 4 & ~3
        if not name or len(raw) < at + 4:
            return None
        return DebugLink(os.fsdecode(name), int(struct.unpack_from(self._order + "I", raw, at)[0]))

    def _section(self, name: bytes, most: int) -> tuple[int, bytes]:
        """The address of a section, and its contents, which may be cut."""
        if not self._shstrndx < len(self._sections):
            return 0, b""
        offset, size = self._contents(self._shstrndx)
        strings, called = self._file.read(offset, min(size, _LARGEST_NOTES)), -1
        for _ in range(_MOST_SUFFIXES):
            called = strings.find(name + b"\0", called + 1)
            if called < 0:
                break
            for number in np.flatnonzero(self._sections["name"] == called)[:1].tolist():
                offset, size = self._contents(number)
                return int(self._sections["addr"][number]), self._file.read(offset, min(size, most))
        return 0, b""


def _unpacked(data: bytes) -> memoryview:
    """An ELF file; empty if it is not one, or a larger one than the bound: its section headers are at its end."""
    nothing, unpacked = memoryview(b""), bytearray()
    try:
        import lzma  # not in every build of Python
    except ImportError:
        return nothing
    try:
        unpacking = lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_MINI_MEMORY)
        while not unpacking.eof and len(unpacked) <= _LARGEST_MINI:
            piece = unpacking.decompress(data, _PIECE)  # all at once would take twice the memory
            unpacked += piece
            data = b""
            if not piece or not unpacked.startswith(_MAGIC):
                return nothing
    except lzma.LZMAError:
        return nothing
    return memoryview(unpacked) if unpacking.eof else nothing
