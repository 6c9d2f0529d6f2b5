"""Executable memory of a process: what the kernel says of one mapping, in /proc/PID/maps or as it is made."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zombiescope.naming.files import File

LAST_PAGE_OF_CALLS = 0xFFFFFFFFFF600000  # [vsyscall], at this address in all processes on x86_64; never reported
_DELETED = " (deleted)"
# Executable memory that is not a file: JIT code. The kernel's name for it depends on how it was mapped.
_NO_FILE = re.compile(r"$|//anon$|/dev/zero|/anon_hugepage|/SYSV|/memfd:|\[(?!vdso|vsyscall)|anon_inode:")


@lru_cache(4096)
def _described(path: str) -> tuple[str, str, bool]:
    """The path of a file, the kind of memory, and whether the file was deleted: as the kernel's name for it says."""
    deleted, path = path.endswith(_DELETED), path.removesuffix(_DELETED)
    if _NO_FILE.match(path):
        return path, "jit", deleted
    return path, path.strip("[]") if path.startswith("[") else "file", deleted


@dataclass(slots=True, eq=False)
class Region:
    """Executable memory: a piece of a file, or code that a program made.

    kind   file      `path` from `offset` on; if `deleted`, another file may have that name now
           vdso      the small library that the kernel maps into each process
           vsyscall  the old form of the same
           jit       code made at run time; the process may have written names for it into a perf map
    """

    start: int
    end: int
    offset: int
    path: str
    build_id: bytes  # b"": not known
    since_ns: int
    device: tuple[int, int] = (0, 0)
    inode: int = 0  # 0: not known
    kind: str = field(init=False)
    deleted: bool = field(init=False)
    file: File | None = None  # what gives it names, once that is known: see files.py

    def __post_init__(self) -> None:
        self.path, self.kind, self.deleted = _described(self.path)

    def at(self, address: int) -> int:
        """The offset in the file of an address."""
        return address - self.start + self.offset


# 55d0c8a5e000-55d0c8a62000 r-xp 00002000 fe:00 1311  /usr/bin/cat
# 7ffd3a1f2000-7ffd3a1f4000 r-xp 00000000 00:00 0     [vdso]
def parse_maps(text: bytes) -> Iterator[Region]:
    """The executable mappings in /proc/PID/maps; other lines are skipped (the file may end anywhere)."""
    for start, end, offset, major, minor, inode, raw in _EXECUTABLE.findall(text):
        path, device = os.fsdecode(raw).replace("\\012", "\n"), (int(major, 16), int(minor, 16))
        yield Region(int(start, 16), int(end, 16), int(offset, 16), path, b"", 0, device, int(inode))


_EXECUTABLE = re.compile(
    rb"^([0-9a-f]+)-([0-9a-f]+) ..x. ([0-9a-f]+) ([0-9a-f]+):([0-9a-f]+) (\d+) *(.*)$", re.MULTILINE
)
VSYSCALL = Region(LAST_PAGE_OF_CALLS, LAST_PAGE_OF_CALLS + 0x1000, 0, "[vsyscall]", b"", 0)
