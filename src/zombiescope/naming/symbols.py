"""Turn the addresses of a profile into names: kernel, files and JITs together, read when first needed.

No files are read here: the caller passes what was saved beside the recording, or a function that reads a file.
Addresses without a name are counted by file, so that a report can say which file lacks symbols.
"""

from __future__ import annotations

from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from contextlib import closing

import numpy as np

from zombiescope.core.errors import Unparsable, Unreadable
from zombiescope.naming.contents import Contents, Held
from zombiescope.naming.elf import Elf
from zombiescope.naming.kallsyms import UNKNOWN, Kallsyms
from zombiescope.naming.kallsyms_text import KallsymsText
from zombiescope.naming.perf_map import PerfMap
from zombiescope.naming.ranges import Addresses

# Path and build-id in hexadecimal ("" if not recorded) to the file's contents, None if not available.
Read = Callable[[str, str], bytes | Contents | None]

KERNEL = "[kernel]"  # the file name under which kernel addresses are counted
OTHERS = "[others]"  # all files after the first _MOST_COUNTED

# A node runs some hundred programs with some hundred libraries; a container image each makes them more.
_MOST_FILES = 1024
# Symbols of libc take 0.1 MB, of a large program with all its symbols 50 MB. Addresses come by file, two million at a
# time, so what had to go is seldom read again.
_MOST_MEMORY = 32 << 20
_MOST_NAMES = 1 << 17  # a profile of a busy node has 20,000 distinct addresses
_MOST_COUNTED = 1024


class Symbols:
    """Names for addresses; `unresolved` counts addresses without one by file, `why` says what was wrong with it."""

    def __init__(
        self,
        kernel: Kallsyms | KallsymsText | None = None,
        read: Read | None = None,
        *,
        debug: Callable[[Elf, str], Elf] | None = None,
        perf_maps: Mapping[int, PerfMap] | None = None,
    ) -> None:
        """`debug` adds the names of a file's debug file, if there is one (debug_files.py)."""
        self._kernel, self._read, self._debug = kernel, read, debug
        self._perf_maps: Mapping[int, PerfMap] = perf_maps or {}
        self._files: OrderedDict[tuple[str, str], Elf | None] = OrderedDict()
        self._memory = 0
        self._names: dict[tuple[str, str, int], str | None] = {}
        self.unresolved: Counter[str] = Counter()
        self.why: dict[str, str] = {}
        if kernel is None:
            self.why[KERNEL] = "no kallsyms beside the recording"
        elif kernel.zeroed:
            self.why[KERNEL] = "addresses are hidden: record as root, or set sysctl kernel.kptr_restrict=0"

    def kernel(self, address: int) -> str:
        """The kernel function at an address, "[unknown]" for none."""
        return self.kernels(np.array([address & (1 << 64) - 1], dtype=np.uint64))[0]

    def kernels(self, addresses: Addresses) -> list[str]:
        """The kernel function at each address."""
        names = self._kernel.names(addresses) if self._kernel else [UNKNOWN] * len(addresses)
        self._count(KERNEL, names.count(UNKNOWN), "addresses in no function")
        return names

    def user(self, path: str, build_id: str, file_offset: int) -> str:
        """The function at an offset of a mapped file, else "libc.so.6+0x1234", "[vdso]" or "[unknown]"."""
        key = (path, build_id, file_offset)
        if key not in self._names:
            if len(self._names) >= _MOST_NAMES:
                self._names.clear()
            elf = self._file(path, build_id)
            self._names[key] = None if elf is None else elf.name(file_offset)
        name = self._names[key]
        if name is None:
            self._count(path, 1, "addresses in no function")
            return _unnamed(path, file_offset)
        return name

    def users(self, path: str, build_id: str, file_offsets: Addresses) -> list[str]:
        """The function at each offset of one file: for many at a time."""
        names = self.functions(path, build_id, file_offsets)
        return [
            _unnamed(path, offset) if name is None else name
            for name, offset in zip(names, file_offsets.tolist(), strict=True)
        ]

    def functions(self, path: str, build_id: str, file_offsets: Addresses) -> list[str | None]:
        """The same, None where there is none."""
        elf = self._file(path, build_id)
        names: list[str | None] = [None] * len(file_offsets) if elf is None else elf.names(file_offsets)
        self._count(path, names.count(None), "addresses in no function")
        return names

    def jit(self, pid: int, address: int) -> str:
        """The JIT function at an address of a process, "[unknown]" for none."""
        known = self._perf_maps.get(pid)
        name = None if known is None else known.name(address)
        if name is None:
            why = "no map beside the recording" if known is None else "addresses in no function"
            self._count(f"perf-{pid}.map", 1, why)
        return name or UNKNOWN

    def jits(self, pid: int, addresses: Addresses) -> list[str | None]:
        """The same for many addresses of one process, None for none."""
        known = self._perf_maps.get(pid)
        names: list[str | None] = [None] * len(addresses) if known is None else known.names(addresses)
        why = "no map beside the recording" if known is None else "addresses in no function"
        self._count(f"perf-{pid}.map", names.count(None), why)
        return names

    def _count(self, path: str, addresses: int, why: str) -> None:
        if addresses:
            counted = path if path in self.unresolved or len(self.unresolved) < _MOST_COUNTED else OTHERS
            self.unresolved[counted] += addresses
            if counted == path:
                self.why.setdefault(path, why)

    # By its path, too: anybody can write the build-id of another file into his own.
    def _file(self, path: str, build_id: str) -> Elf | None:
        key = (path, build_id)
        if key not in self._files:
            elf, why = self._opened(path, build_id)
            if why and len(self.why) < _MOST_COUNTED:
                self.why.setdefault(path, why)
            self._files[key] = elf
            self._memory += 0 if elf is None else elf.memory
        self._files.move_to_end(key)
        while len(self._files) > 1 and (len(self._files) > _MOST_FILES or self._memory > _MOST_MEMORY):
            _oldest, gone = self._files.popitem(last=False)
            self._memory -= 0 if gone is None else gone.memory
        return self._files[key]

    def _opened(self, path: str, build_id: str) -> tuple[Elf | None, str]:
        elf, why = _parsed(self._read, path, build_id)
        if elf is not None and self._debug is not None:
            elf = self._debug(elf, path)
        if elf is not None and not elf:
            why = "has no function names (stripped)"
        return elf, why


# Names from another build of the file would be wrong without any sign of it: better none.
def _parsed(read: Read | None, path: str, build_id: str) -> tuple[Elf | None, str]:
    try:
        data = read(path, build_id) if read and path else None
        if data is None:
            return None, "not available"
        with closing(Held(data) if isinstance(data, bytes) else data) as contents:
            elf = Elf.parse(contents, path)
    except (Unreadable, Unparsable) as error:
        return None, error.why
    # perf pads shorter build-ids with zeros to 20 bytes.
    if build_id and elf.build_id.rstrip("0") != build_id.lower().rstrip("0"):
        return None, f"another build: {elf.build_id or 'no build-id'}, not {build_id}"
    return elf, ""


def _unnamed(path: str, file_offset: int) -> str:
    if path.startswith("[") and path.endswith("]"):
        return path  # the kernel's own words: [vdso], [vsyscall], [stack], [heap]
    name = path.removesuffix(" (deleted)").rsplit("/", 1)[-1]
    # "//anon", "anon_inode:…", "/memfd:…", "/SYSV…" and "" are memory, where an offset says nothing.
    if not name or name == "anon" or name.startswith(("anon_inode:", "memfd:", "SYSV")):
        return UNKNOWN
    return f"{name}+{file_offset:#x}"
