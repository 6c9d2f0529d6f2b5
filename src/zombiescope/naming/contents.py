"""What a file holds, read in pieces: a file that is truncated while it is read gives fewer bytes, never a signal.

A mapped file would kill the process (SIGBUS) when its owner cuts it off; pread(2) does not.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol

from zombiescope.core.errors import Unreadable
from zombiescope.processes.opening import identity, place, reading

LARGEST = 4 << 30  # bytes; of a program only tables are read, and each of them is bounded


class Contents(Protocol):
    """Bytes at any offset; fewer than asked for where there are no more."""

    @property
    def size(self) -> int: ...

    def read(self, at: int, size: int) -> bytes: ...

    def close(self) -> None: ...


class Held:
    """Bytes in memory."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._view = memoryview(data).cast("B")

    @property
    def size(self) -> int:
        return len(self._view)

    def read(self, at: int, size: int) -> bytes:
        return bytes(self._view[at : at + size])

    def close(self) -> None:
        """Nothing to give back."""


class OnDisk:
    """An open file; its size is that of the moment it was opened. It owns the descriptor.

    A read ends where nothing was ever written (a hole): no linker leaves one inside of a table, and a file of some
    kilobytes on disk could claim tables of gigabytes by one.
    """

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor, self._size = descriptor, size

    @property
    def size(self) -> int:
        return self._size

    def close(self) -> None:
        os.close(self._descriptor)

    def read(self, at: int, size: int) -> bytes:
        if at >= self._size:
            return b""
        pieces, left = [], max(0, min(size, self._size - at, self._until_hole(at) - at))
        while left:
            try:
                piece = os.pread(self._descriptor, left, at)
            except OSError:  # a damaged disk: what is missing is left out
                break
            if not piece:
                break
            pieces.append(piece)
            at, left = at + len(piece), left - len(piece)
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _until_hole(self, at: int) -> int:
        """Where the data at an offset ends. Without SEEK_HOLE, as on vfat, a file has no holes either."""
        try:
            return os.lseek(self._descriptor, at, os.SEEK_HOLE)
        except OSError as error:
            return at if error.errno == errno.ENXIO else self._size  # ENXIO: behind the end of the file


def contents(descriptor: int, size: int, source: str) -> OnDisk:
    """What is in a file whose identity was asked for before; to be closed."""
    if size > LARGEST:
        raise Unreadable(source, f"larger than {LARGEST >> 30} GB")
    return OnDisk(reading(descriptor), size)


@contextmanager
def readable(source: str) -> Iterator[None]:
    """A file that cannot be opened in here is Unreadable."""
    try:
        yield
    except OSError as error:
        raise Unreadable(source, (error.strerror or "").lower()) from None


def host_file(path: str) -> OnDisk:
    """A file of this machine by its path, links and all, if it is a regular one; to be closed."""
    with readable(path), place(path) as descriptor:
        return contents(descriptor, identity(descriptor).size, path)
