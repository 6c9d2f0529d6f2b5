"""A JSON header and raw columns as one piece of bytes, which a browser reads without parsing.

8 bytes: what it is   4 bytes: length of the header   the header, padded with blanks   columns, each at a multiple of 8

Numbers are little-endian, each column in the narrowest type that holds it.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from zombiescope.core import harmless
from zombiescope.profile.tree import Tree

LONGEST = 1_000  # characters of a name: C++ has longer ones, which no one reads
_NARROW = (np.uint8, np.uint16, np.uint32, np.float64)  # a browser has no quick 64-bit integers; 2^53 is exact


@dataclass(slots=True)
class Columns:
    """The bytes after the header, and where each column is in them."""

    parts: list[bytes] = field(default_factory=list)
    places: dict[str, tuple[str, int, int]] = field(default_factory=dict)  # type, offset, count
    size: int = 0

    def numbers(self, name: str, values: npt.NDArray[Any]) -> None:
        if values.dtype.kind in "iu":
            most = int(values.max(initial=0))
            fitting = (it for it in _NARROW[:3] if most <= np.iinfo(it).max)
            values = values.astype(next(fitting, np.float64))
        self._add(name, values.dtype.str[1:], values.astype(values.dtype.newbyteorder("<")).tobytes(), values.size)

    def words(self, name: str, words: Sequence[str]) -> None:
        """One per line: harmless() leaves no newline in it."""
        text = "\n".join(harmless(word, most=LONGEST) for word in words).encode()
        self._add(name, "text", text, len(text))

    def tree(self, tree: Tree) -> None:
        """The stacks of a flame graph."""
        self.words("names", tree.names)
        self.numbers("kinds", tree.kinds)
        modules = sorted(set(tree.modules))
        self.words("modules", modules)
        place = {module: number for number, module in enumerate(modules)}
        self.numbers("module", np.array([place[it] for it in tree.modules]))
        self.numbers("label", tree.label)
        self.numbers("parent", np.maximum(tree.parent, 0))  # the root is its own
        self.numbers("depth", tree.depth)
        self.numbers("after", tree.after)

    def packed(self, magic: bytes, header: dict[str, Any]) -> bytes:
        text = json.dumps(header | {"columns": self.places}, allow_nan=False, separators=(",", ":")).encode()
        text += b" " * (-(len(magic) + 4 + len(text)) % 8)
        return b"".join([magic, struct.pack("<I", len(text)), text, *self.parts])

    def _add(self, name: str, kind: str, data: bytes, count: int) -> None:
        self.places[name] = (kind, self.size, count)
        padded = data + b"\0" * (-len(data) % 8)
        self.parts.append(padded)
        self.size += len(padded)
