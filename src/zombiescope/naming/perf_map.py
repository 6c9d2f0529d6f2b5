"""Read the map a just-in-time compiler leaves in /tmp/perf-PID.map: where it put which function.

    7f2c1c0a5000 1a0 LazyCompile:~parse /app/server.js:12

Start and size are hexadecimal, the name is the rest of the line (perf's tools/perf/Documentation/jit-interface.txt).
Memory is used again for other functions and the file is only appended to, so the later line wins. Any process may write
such a file, so no line is trusted: one that does not fit is skipped and counted.
"""

from __future__ import annotations

import re

import numpy as np

from zombiescope.naming.demangled import demangled
from zombiescope.naming.ranges import Addresses, Ranges, named

LARGEST = 64 << 20  # a runtime that recompiles for days writes some tens of MB; lines beyond are counted as skipped
_MOST = 1 << 20
# A size of zero names nothing.
_LINE = re.compile(rb"^(?:0x)?([0-9a-f]{1,16})[ \t]+(?:0x)?0*([1-9a-f][0-9a-f]{0,15})[ \t]+(\S[^\n]*)$", re.M | re.I)
_LONGEST_NAME = 4096


class PerfMap:
    """Functions of one process's JIT by address; `skipped` counts the lines not understood."""

    def __init__(self, starts: Addresses, sizes: Addresses, names: list[bytes], skipped: int) -> None:
        self._starts, self._sizes, self._names, self.skipped = starts, sizes, names, skipped
        self._ranges = Ranges(starts, sizes)

    @classmethod
    def parse(cls, text: bytes) -> PerfMap:
        """All lines that fit, however many do not."""
        lines = text.count(b"\n") + (not text.endswith(b"\n") and bool(text))
        starts: list[int] = []
        sizes: list[int] = []
        names: list[bytes] = []
        for line in _LINE.finditer(text, 0, LARGEST):
            if len(names) == _MOST:
                break
            starts.append(int(line[1], 16))
            sizes.append(int(line[2], 16))
            names.append(line[3].rstrip()[:_LONGEST_NAME])
        skipped = lines - len(names)
        return cls(np.array(starts, dtype=np.uint64), np.array(sizes, dtype=np.uint64), names, skipped)

    def __len__(self) -> int:
        return len(self._names)

    @property
    def memory(self) -> int:
        """Bytes held, about."""
        return 40 * len(self._names) + sum(map(len, self._names)) + 64 * len(self._names)

    def followed_by(self, later: PerfMap) -> PerfMap:
        """This map and what was appended to its file since; beyond the most lines it is counted as skipped."""
        room = max(0, _MOST - len(self))
        starts = np.concatenate([self._starts, later._starts[:room]])
        sizes = np.concatenate([self._sizes, later._sizes[:room]])
        skipped = self.skipped + later.skipped + max(0, len(later) - room)
        return PerfMap(starts, sizes, self._names + later._names[:room], skipped)

    def name(self, address: int) -> str | None:
        """The function at an address, None for none."""
        found = self._ranges.find_one(address) if 0 <= address < 1 << 64 else -1
        return None if found < 0 else self._name(found)

    def names(self, addresses: Addresses) -> list[str | None]:
        """The function at each address."""
        return named(self._ranges.find(addresses.astype(np.uint64, copy=False)), self._name, None)

    def _name(self, index: int) -> str:
        return demangled(self._names[index].decode("utf-8", "surrogateescape"))
