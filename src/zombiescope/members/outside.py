"""Files from outside the package: what may be read at all, and what root may trust enough to run or to believe."""

from __future__ import annotations

import os

from zombiescope.core.errors import Unreadable
from zombiescope.core.root_only import trusted
from zombiescope.processes.opening import names, regular

MOST_BYTES = 1 << 20  # a member or a knowledge file has a few KB
MOST_FILES = 1000  # in one folder: more is not a folder of members


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
        with os.fdopen(regular(path), "rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        raise Unreadable(path, _reason(error)) from error
    if len(content) > MOST_BYTES:
        raise Unreadable(path, f"larger than {MOST_BYTES:,} bytes")
    return content


def listed(folder: str) -> list[str]:
    """The names in a folder, sorted; `Unreadable` if it is none, or if it has too many."""
    try:
        found, more = names(folder, MOST_FILES)
    except (OSError, ValueError) as error:
        raise Unreadable(folder, _reason(error)) from error
    if more:
        raise Unreadable(folder, f"more than {MOST_FILES:,} files")
    return sorted(found)


def _reason(error: OSError | ValueError) -> str:
    return (getattr(error, "strerror", None) or str(error)).lower()
