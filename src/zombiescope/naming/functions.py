"""The functions of one ELF symbol table, by virtual address."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from zombiescope.naming.demangled import demangled
from zombiescope.naming.elf_records import Table
from zombiescope.naming.ranges import Addresses, Indexes, Ranges, best_aliases

_STT_FUNC, _STT_GNU_IFUNC = 2, 10
_STB_GLOBAL, _STB_WEAK, _STB_GNU_UNIQUE = 1, 2, 10
_EM_ARM = 40
# Hand-written assembly often has no size (_start, _init). It then extends to the next function, but not beyond its
# section and not further than a page: perf rounds up to a page as well.
_UNSIZED = 4096
_LONGEST_NAME = 4096  # names of C++ templates reach a few KB; bounds the cost of a table without NUL bytes


class Functions:
    """Names of functions; an address outside of every function has none."""

    def __init__(
        self, symbols: Table, strings: bytes, section_ends: Addresses, machine: int, *, labels: bool = False
    ) -> None:
        """`section_ends`: the virtual address at which each section ends, by its number; `labels`: take all symbols."""
        kind = symbols["info"] & 15
        wanted = (kind == _STT_FUNC) | (kind == _STT_GNU_IFUNC) | labels
        wanted &= (symbols["shndx"] != 0) & (symbols["value"] != 0) & (symbols["name"] != 0)
        wanted &= symbols["name"] < len(strings)
        # Sorting takes most of the time, and of some tables no address is ever asked for: it is done when one is.
        self._unsorted: tuple[Table, Addresses, int] | None = (symbols[wanted], section_ends, machine)
        self._count = len(self._unsorted[0])
        self.strings = strings if self._count else b""

    def _sort(self) -> None:
        if self._unsorted is None:
            return
        symbols, section_ends, machine = self._unsorted
        bind = symbols["info"] >> 4
        starts = _unsigned(symbols["value"])
        if machine == _EM_ARM:
            starts &= ~np.uint64(1)  # the bit says that the function is in Thumb code
        sizes, name_at = _unsigned(symbols["size"]), symbols["name"].astype(np.int64)
        weak, exported = bind == _STB_WEAK, (bind == _STB_GLOBAL) | (bind == _STB_GNU_UNIQUE)
        text = np.frombuffer(self.strings, dtype=np.uint8)
        kept = best_aliases(starts, sizes > 0, weak, exported, text, name_at)
        starts, sizes = starts[kept], sizes[kept]
        reach = _reach(starts, symbols["shndx"][kept], section_ends)
        self._sorted = Ranges(starts, np.where(sizes > 0, sizes, reach))
        self._name_at: Indexes = name_at[kept]
        self._unsorted = None

    @property
    def _ranges(self) -> Ranges:
        self._sort()
        return self._sorted

    def __bool__(self) -> bool:
        """Whether there are any functions: known without sorting them."""
        return self._count > 0

    def __len__(self) -> int:
        self._sort()
        return len(self._name_at)

    @property
    def memory(self) -> int:
        """Bytes held, sorted or not, without `strings`, which other tables may share."""
        return 32 * self._count

    def find(self, addresses: Addresses) -> Indexes:
        """The number of the function at each virtual address, -1 for none."""
        return self._ranges.find(addresses)

    def find_one(self, address: int) -> int:
        """The number of the function at one address, -1 for none."""
        return self._ranges.find_one(address)

    def name(self, number: int) -> str:
        """The name of a function, as people write it."""
        return demangled(self._symbol(number))

    def _symbol(self, number: int) -> str:
        at = int(self._name_at[number])
        raw = self.strings[at : at + _LONGEST_NAME]
        return raw.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")

    def listed(self) -> list[tuple[int, int, str]]:
        """Virtual address, size and symbol of every function; of those nested in another, the pieces outside."""
        ranges = self._ranges
        rows = zip(ranges.starts.tolist(), ranges.sizes.tolist(), ranges.owners.tolist(), strict=True)
        return [(start, size, self._symbol(owner)) for start, size, owner in rows]


def _reach(starts: Addresses, sections: npt.NDArray[Any], section_ends: Addresses) -> Addresses:
    following = np.append(starts[1:], np.uint64((1 << 64) - 1)) if len(starts) else starts
    ends = np.append(section_ends, np.uint64(0))  # special sections (absolute, common) hold no code
    end = np.minimum(ends[np.minimum(sections.astype(np.int64), len(section_ends))], following)
    return np.where(end > starts, np.minimum(end - starts, np.uint64(_UNSIZED)), np.uint64(0))


def _unsigned(field: npt.NDArray[Any]) -> Addresses:
    return field.astype(np.uint64)
