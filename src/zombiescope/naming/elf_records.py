"""The records of an ELF file: headers of programs and sections, symbols; of both classes and byte orders (elf(5))."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from zombiescope.core.errors import Unparsable
from zombiescope.naming.contents import Contents

Table = npt.NDArray[np.void]  # records with named fields

CLASS_32, CLASS_64 = 1, 2


class Layout(NamedTuple):
    """One kind of record: its size in bytes, and of each field that is used its type and place."""

    size: int
    fields: dict[str, tuple[str, int]]

    def dtype(self, order: str) -> np.dtype[np.void]:
        kinds = [order + kind for kind, _ in self.fields.values()]
        places = [at for _, at in self.fields.values()]
        return np.dtype({"names": list(self.fields), "formats": kinds, "offsets": places, "itemsize": self.size})


PROGRAM = {
    CLASS_64: Layout(
        56,
        {"type": ("u4", 0), "flags": ("u4", 4), "offset": ("u8", 8), "vaddr": ("u8", 16), "filesz": ("u8", 32)}
        | {"align": ("u8", 48)},
    ),
    CLASS_32: Layout(
        32,
        {"type": ("u4", 0), "flags": ("u4", 24), "offset": ("u4", 4), "vaddr": ("u4", 8), "filesz": ("u4", 16)}
        | {"align": ("u4", 28)},
    ),
}
SECTION = {
    CLASS_64: Layout(
        64,
        {"name": ("u4", 0), "type": ("u4", 4), "flags": ("u8", 8), "addr": ("u8", 16), "offset": ("u8", 24)}
        | {"size": ("u8", 32), "link": ("u4", 40), "info": ("u4", 44), "align": ("u8", 48), "entsize": ("u8", 56)},
    ),
    CLASS_32: Layout(
        40,
        {"name": ("u4", 0), "type": ("u4", 4), "flags": ("u4", 8), "addr": ("u4", 12), "offset": ("u4", 16)}
        | {"size": ("u4", 20), "link": ("u4", 24), "info": ("u4", 28), "align": ("u4", 32), "entsize": ("u4", 36)},
    ),
}
SYMBOL = {
    CLASS_64: Layout(
        24, {"name": ("u4", 0), "info": ("u1", 4), "shndx": ("u2", 6), "value": ("u8", 8), "size": ("u8", 16)}
    ),
    CLASS_32: Layout(
        16, {"name": ("u4", 0), "info": ("u1", 12), "shndx": ("u2", 14), "value": ("u4", 4), "size": ("u4", 8)}
    ),
}


def records(file: Contents, source: str, order: str, layout: Layout, place: tuple[int, int, int]) -> Table:
    """A table of a file: `place` is its offset, the size of a record and their number. Cut where the file ends.

    The size is the format's own, exactly: tables are bounded in records, and a larger one would make each of them
    65,535 bytes.
    """
    offset, size, count = place
    if size != layout.size:
        raise Unparsable(source, offset, f"records of {size} bytes, not of {layout.size}")
    count = min(count, (file.size - offset) // size)
    data = file.read(offset, count * size) if count > 0 else b""
    return np.frombuffer(data, layout.dtype(order), len(data) // size)  # cut off in between, it has fewer
