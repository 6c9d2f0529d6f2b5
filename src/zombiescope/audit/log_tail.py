"""The end of a log that others write, perhaps in a container: what was added since the last read.

A file is opened for each read and not held: an open file would keep a container's file system mounted, and with it the
memory cgroup that we want to see released. What is written between our last read and a rotation is missed. No link is
followed below the given root: one made in a container could lead out of it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from zombiescope.core import Unreadable
from zombiescope.core.host import MOST_NAMES, why
from zombiescope.processes.opening import folder_inside, names, regular_inside


class Place(NamedTuple):
    """A file or folder by its path below a root, and how a person on the machine reaches it."""

    root: str
    path: str
    shown: str

    def inside(self, name: str) -> Place:
        return Place(self.root, f"{self.path}/{name}", f"{self.shown}/{name}")


class Tail:
    """One log file."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self._inode = -1
        self._offset = 0
        self.skipped = 0  # bytes that came too fast, or were there before the first read
        self.modified = 0.0  # when the file was last written to

    def new(self, most: int) -> list[str]:
        """The complete lines that were added, within the last `most` bytes; at the first read, of what is there."""
        with _opened(self.place, regular_inside) as handle:
            about = os.fstat(handle)
            self.modified = about.st_mtime
            if about.st_ino != self._inode or about.st_size < self._offset:
                self._inode, self._offset = about.st_ino, 0
            begin = max(self._offset, about.st_size - most)
            skipped, self.skipped = begin - self._offset, self.skipped + begin - self._offset
            text = os.pread(handle, most, begin)
        whole = text.rfind(b"\n") + 1
        # An incomplete line is left for the next read, unless it is longer than all that we read.
        self._offset = begin + (whole if whole or len(text) < most else len(text))
        lines = text[:whole].decode("utf-8", "surrogateescape").split("\n")[:-1]
        return lines[1:] if skipped else lines  # the first is incomplete


def listing(place: Place) -> tuple[list[str], bool]:
    """Names in a folder, sorted, and whether it has more than are read: whoever fills it chooses how many."""
    with _opened(place, folder_inside) as handle:
        found, more = names(handle, MOST_NAMES)
        return sorted(found), more


def identity(place: Place) -> tuple[int, int]:
    """What identifies a folder, whichever root it was reached by."""
    with _opened(place, folder_inside) as handle:
        about = os.fstat(handle)
        return about.st_dev, about.st_ino


@contextmanager
def _opened(place: Place, way: Callable[..., int]) -> Iterator[int]:
    """A file or folder below a root, reached without following a link; what is neither is not opened."""
    try:
        handle = way(place.root, place.path, links=False)
        try:
            yield handle
        finally:
            os.close(handle)
    except (OSError, ValueError) as error:
        raise Unreadable(place.shown, why(error)) from error
