"""A bundle taken apart as the page does it, for tests."""

from __future__ import annotations

import json
import struct
from typing import Any

import numpy as np

from zombiescope.web.payload import MAGIC


class Unpacked:
    """The header, and columns by name."""

    def __init__(self, data: bytes, magic: bytes = MAGIC) -> None:
        assert data[:8] == magic
        (length,) = struct.unpack("<I", data[8:12])
        self.header: dict[str, Any] = json.loads(data[12 : 12 + length])
        self._data, self._base = data, 12 + length
        assert self._base % 8 == 0

    def numbers(self, name: str) -> Any:
        kind, offset, count = self.header["columns"][name]
        assert offset % 8 == 0, "a browser reads numbers only where they are aligned"
        return np.frombuffer(self._data, f"<{kind}", count, self._base + offset)

    def words(self, name: str) -> list[str]:
        _, offset, count = self.header["columns"][name]
        return self._data[self._base + offset : self._base + offset + count].decode().split("\n")

    def totals(self, start: int, end: int) -> dict[tuple[str, ...], int]:
        """A flame graph by the book: own weight of each path, of rows from a tick on and before another."""
        at = np.cumsum(self.numbers("at"))
        names, label, parent = self.words("names"), self.numbers("label"), self.numbers("parent")
        found: dict[tuple[str, ...], int] = {}
        for row in np.flatnonzero((at >= start) & (at < end)).tolist():
            node, path = int(self.numbers("leaf")[row]), []
            while node:
                path.append(names[label[node]])
                node = int(parent[node])
            key = tuple(reversed(path))
            found[key] = found.get(key, 0) + int(self.numbers("weight")[row])
        return found
