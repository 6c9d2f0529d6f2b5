"""Files from outside the package: what may be read at all, and what root may trust enough to run or to believe."""

from __future__ import annotations

import os
import stat
from itertools import islice

from zombiescope.core.errors import Unreadable
from zombiescope.core.root_only import trusted

MOST_BYTES = 1 << 20  # a member or a knowledge file has a few KB
MOST_FILES = 1000  # in one folder: more is not a folder of members
_PLACE: int | None = getattr(os, "O_PATH", None)  # a descriptor that opens nothing; only Linux has it


def why_untrusted(path: str) -> str:
    """The reason why root must not load `path`; empty if there is none, or if we are not root."""
    try:
        trusted(path)
    except Unreadable as error:
        return error.why
    return ""


def read_trusted(path: str) -> bytes:
    """A small regular file that may be trusted; else `Unreadable` with the reason. Nothing else is opened."""
    try:
        return read_regular(trusted(path))
    except Unreadable as error:
        raise Unreadable(path, error.why) from None


def read_regular(path: str) -> bytes:
    """A small regular file. Its type is known before it is opened: a FIFO would wait, a device might act."""
    try:
        found = os.open(path, _PLACE | os.O_CLOEXEC) if _PLACE else _known_before(path)
        try:
            if not stat.S_ISREG(os.fstat(found).st_mode):
                raise Unreadable(path, "not a regular file")
            # The very file whose type is known now, whatever has been put in its place.
            with open(f"/proc/self/fd/{found}", "rb") if _PLACE else os.fdopen(os.dup(found), "rb") as file:
                content = file.read(MOST_BYTES + 1)
        finally:
            os.close(found)
    except (OSError, ValueError) as error:
        raise Unreadable(path, _reason(error)) from error
    if len(content) > MOST_BYTES:
        raise Unreadable(path, f"larger than {MOST_BYTES:,} bytes")
    return content


def _known_before(path: str) -> int:
    """Where only Linux's way is lacking: asked for its type first, then opened without waiting."""
    if not stat.S_ISREG(os.stat(path).st_mode):
        raise Unreadable(path, "not a regular file")
    return os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)


def listed(folder: str) -> list[str]:
    """The names in a folder, sorted; `Unreadable` if it is none, or if it has too many."""
    try:
        with os.scandir(folder) as entries:
            names = sorted(entry.name for entry in islice(entries, MOST_FILES + 1))
    except (OSError, ValueError) as error:
        raise Unreadable(folder, _reason(error)) from error
    if len(names) > MOST_FILES:
        raise Unreadable(folder, f"more than {MOST_FILES:,} files")
    return names


def _reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
