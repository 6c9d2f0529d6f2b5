"""Write a tiny ELF file of any class and byte order, for tests."""

from __future__ import annotations

import struct
from dataclasses import dataclass, field

FUNC, OBJECT, IFUNC = 2, 1, 10
LOCAL, GLOBAL, WEAK = 0, 1, 2
TEXT_OFFSET, TEXT_ADDRESS, TEXT_SIZE = 0x1000, 0x401000, 0x800


@dataclass(frozen=True, kw_only=True)
class Symbol:
    """One entry of .symtab."""

    name: str
    value: int
    size: int
    kind: int = FUNC
    bind: int = GLOBAL
    section: int = 1


@dataclass(frozen=True, kw_only=True)
class ElfFile:
    """One executable segment (.text), .symtab with its names, a build-id note, and any further sections."""

    symbols: tuple[Symbol, ...]
    bits: int = 64
    order: str = "<"
    machine: int = 62
    build_id: bytes = bytes(range(20))
    note_in_section: bool = True
    more: dict[str, bytes] = field(default_factory=dict)

    def written(self) -> bytes:
        """The bytes of the file."""
        wide = self.bits == 64
        header, program, section = (64, 56, 64) if wide else (52, 32, 40)
        names = b"\0"
        table = bytes(24 if wide else 16)
        for symbol in self.symbols:
            info = symbol.bind << 4 | symbol.kind
            if wide:
                rest = (info, 0, symbol.section, symbol.value, symbol.size)
                table += struct.pack(self.order + "IBBHQQ", len(names), *rest)
            else:
                rest = (symbol.value, symbol.size, info, 0, symbol.section)
                table += struct.pack(self.order + "IIIBBH", len(names), *rest)
            names += symbol.name.encode("utf-8", "surrogateescape") + b"\0"
        note = struct.pack(self.order + "III", 4, len(self.build_id), 3) + b"GNU\0" + self.build_id
        # Each section: name, type, address, offset, size, link, size of an entry.
        body = b""
        sections = [("", 0, 0, 0, 0, 0, 0), (".text", 1, TEXT_ADDRESS, TEXT_OFFSET, TEXT_SIZE, 0, 0)]
        contents = [(".symtab", 2, table, 3, 24 if wide else 16), (".strtab", 3, names, 0, 0)]
        contents += [(".note.gnu.build-id", 7 if self.note_in_section else 1, note, 0, 0)]
        contents += [(name, 1, data, 0, 0) for name, data in self.more.items()]
        called = b"\0".join([b"", *(name.encode() for name, *_ in contents), b".text", b".shstrtab", b""])
        contents += [(".shstrtab", 3, called, 0, 0)]
        at = TEXT_OFFSET + TEXT_SIZE
        for name, kind, data, link, entry in contents:
            sections.append((name, kind, 0, at + len(body), len(data), link, entry))
            body += data + bytes(-len(data) % 8)
        note_at = next(row[3] for row in sections if row[0] == ".note.gnu.build-id")
        loads = [(1, 5, TEXT_OFFSET, TEXT_ADDRESS, TEXT_SIZE, 0x1000), (1, 4, 0, 0x400000, 0x1000, 0x1000)]
        loads += [(4, 4, note_at, 0, len(note), 4)]
        programs = b"".join(self._program(*row) for row in loads)
        headers = b"".join(self._section(called, *row) for row in sections)
        start = struct.pack("4sBBBB8x", b"\x7fELF", 2 if wide else 1, 1 if self.order == "<" else 2, 1, 0)
        start += struct.pack(
            self.order + ("HHIQQQIHHHHHH" if wide else "HHIIIIIHHHHHH"),
            *(2, self.machine, 1, TEXT_ADDRESS, header, at + len(body), 0, header, program, len(loads)),
            *(section, len(sections), len(sections) - 1),
        )
        return (start + programs).ljust(at, b"\x90") + body + headers

    def _program(self, kind: int, flags: int, offset: int, address: int, size: int, align: int) -> bytes:
        if self.bits == 64:
            return struct.pack(self.order + "IIQQQQQQ", kind, flags, offset, address, address, size, size, align)
        return struct.pack(self.order + "IIIIIIII", kind, offset, address, address, size, size, flags, align)

    def _section(
        self, called: bytes, name: str, kind: int, address: int, offset: int, size: int, link: int, entry: int
    ) -> bytes:
        layout = "IIQQQQIIQQ" if self.bits == 64 else "IIIIIIIIII"
        at = called.index(b"\0" + name.encode() + b"\0") + 1 if name else 0
        return struct.pack(self.order + layout, at, kind, 0, address, offset, size, link, 0, 4, entry)
