"""Whether files from outside the package may be trusted: root runs or believes only what nobody else can change."""

from __future__ import annotations

import os
import stat

from zombiescope.core.errors import Unreadable

MOST_BYTES = 1 << 20  # a member or a knowledge file has a few KB


def why_untrusted(path: str) -> str:
    """The reason why root must not load `path`; empty if there is none, or if we are not root.

    Every folder from / down to the file must belong to root and be writable by root alone. A sticky folder (/tmp) may
    be writable by all: there nobody can replace what belongs to root.
    """
    if os.geteuid() != 0:
        return ""
    real, part = os.path.realpath(path), "/"
    for name in ["", *real.strip("/").split("/")]:
        part = os.path.join(part, name)
        try:
            status = os.lstat(part)
        except OSError as error:
            return f"{part}: {(error.strerror or '').lower()}"
        if status.st_uid != 0:
            return f"{part} belongs to user {status.st_uid}, who could change what root runs"
        sticky = stat.S_ISDIR(status.st_mode) and status.st_mode & stat.S_ISVTX and part != real
        if status.st_mode & (stat.S_IWOTH | (stat.S_IWGRP if status.st_gid else 0)) and not sticky:
            return f"{part} can be written by others than root"
    return ""


def read_trusted(path: str) -> bytes:
    """A small regular file that may be trusted; else `Unreadable` with the reason. Nothing else is opened."""
    try:
        # O_NONBLOCK: the type is known only after opening, and a FIFO would wait for a writer.
        if not stat.S_ISREG(os.stat(path).st_mode):
            raise Unreadable(path, "not a regular file")
        if why := why_untrusted(path):
            raise Unreadable(path, f"not loaded by root: {why}")
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY)
        try:
            if not stat.S_ISREG(os.fstat(handle).st_mode):
                raise Unreadable(path, "not a regular file")
            content = os.read(handle, MOST_BYTES + 1)
        finally:
            os.close(handle)
    except OSError as error:
        raise Unreadable(path, (error.strerror or str(error)).lower()) from error
    if len(content) > MOST_BYTES:
        raise Unreadable(path, f"larger than {MOST_BYTES:,} bytes")
    return content
