"""The stubs through which a program calls functions of its libraries, named as perf does: malloc@plt. x86-64 only.

A stub jumps through its slot of the global offset table; .rela.plt says which function's address is put there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np

from zombiescope.naming.demangled import demangled
from zombiescope.naming.elf_records import Table

X86_64 = 62
_RELOCATION = np.dtype([("slot", "<u8"), ("info", "<u8"), ("addend", "<i8")])
_LARGEST = 8 << 20  # bytes of a section: 300,000 relocations, 500,000 stubs
_JUMP = b"\xff\x25"  # jmp *distance(%rip)
_SIZE = 16  # bytes of a stub
_LONGEST_NAME = 4096

Section = Callable[[bytes, int], tuple[int, bytes]]  # by name and the most bytes: its address and contents


class Stubs:
    """Those of one file, decoded when an address is asked for."""

    def __init__(self, section: Section, symbols: Table, strings: bytes) -> None:
        raw = section(b".rela.plt", _LARGEST)[1]
        self._slots = np.frombuffer(raw, _RELOCATION, len(raw) // _RELOCATION.itemsize)
        self._code = [section(name, _LARGEST) for name in (b".plt", b".plt.sec")] if len(raw) else []
        self._names, self._strings = (symbols["name"], strings) if len(raw) else (symbols["name"][:0], b"")

    @property
    def memory(self) -> int:
        """Bytes held."""
        return self._slots.nbytes + sum(len(code) for _, code in self._code) + 4 * len(self._names) + len(self._strings)

    def names(self, addresses: Iterable[int]) -> list[str | None]:
        return [self._name(each) if self._code else None for each in addresses]

    def _name(self, address: int) -> str | None:
        for begins, code in self._code:
            at = address - begins & ~(_SIZE - 1)
            jump = code.find(_JUMP, at, at + _SIZE) if 0 <= at < len(code) else -1
            if jump >= 0:
                behind = jump + len(_JUMP) + 4
                slot = begins + behind + int.from_bytes(code[behind - 4 : behind], "little", signed=True)
                found = self._slots[self._slots["slot"] == slot % (1 << 64)][:1]
                return (
                    f"{self._called(int(found['info'][0]) >> 32, int(found['addend'][0]))}@plt" if len(found) else None
                )
        return None

    def _called(self, symbol: int, addend: int) -> str:
        if not 0 < symbol < len(self._names):
            return f"*ABS*+{addend:#x}"  # chosen when the program starts (IRELATIVE), as memcpy in libc itself
        at = int(self._names[symbol])
        raw = self._strings[at : at + _LONGEST_NAME].split(b"\0", 1)[0]
        return demangled(raw.decode("utf-8", "surrogateescape"))
