"""The end of a log that others write, perhaps in a container: what was added since the last read.

A file is opened for each read and not held: an open file would keep a container's file system mounted, and with it the
memory cgroup that we want to see released. What is written between our last read and a rotation is missed. No link is
followed below the given root: one made in a container could lead out of it.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import NamedTuple

from zombiescope.core import Unreadable
from zombiescope.core.host import why


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
        with opened(self.place) as handle:
            about = os.fstat(handle)
            if not stat.S_ISREG(about.st_mode):
                raise Unreadable(self.place.shown, "not a regular file")
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


def listing(place: Place) -> list[str]:
    """The names in a folder, sorted."""
    with opened(place, os.O_DIRECTORY) as handle:
        return sorted(os.listdir(handle))


def identity(place: Place) -> tuple[int, int]:
    """What identifies a folder, whichever root it was reached by."""
    with opened(place, os.O_DIRECTORY) as handle:
        about = os.fstat(handle)
        return about.st_dev, about.st_ino


@contextmanager
def opened(place: Place, flags: int = 0) -> Iterator[int]:
    """A file or folder below a root, reached step by step so that no link is followed."""
    with ExitStack() as stack:
        try:
            handle = _open(stack, place.root, os.O_PATH)
            *folders, last = [step for step in place.path.split("/") if step not in ("", ".", "..")]
            for step in folders:
                handle = _open(stack, step, os.O_PATH | os.O_NOFOLLOW, handle)
            # A FIFO in the place of a log must not hang us.
            handle = _open(stack, last, os.O_NONBLOCK | os.O_NOFOLLOW | flags, handle)
            yield handle
        except (OSError, ValueError) as error:
            raise Unreadable(place.shown, why(error)) from error


def _open(stack: ExitStack, name: str, flags: int, folder: int | None = None) -> int:
    handle = os.open(name, flags, dir_fd=folder)
    stack.callback(os.close, handle)
    return handle
