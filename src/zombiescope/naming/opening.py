"""Open a file that somebody else chose: its type is known before it is opened, and no link leads out of its root.

A descriptor with O_PATH opens nothing: no driver is called, no FIFO waits. statx(2) with AT_STATX_DONT_SYNC asks no
file server. Only a regular file is then opened for reading, through /proc/self/fd, which is that very file.
Kernel: openat2(2) since fddb5d430ad9 (v5.6); before it, a path with a link in it is refused. statx(2) since v4.11.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

from zombiescope.core.errors import Unreadable
from zombiescope.naming.contents import OnDisk

LARGEST = 4 << 30  # bytes; of a program only tables are read, and each of them is bounded

_OPENAT2 = 437  # the same on all architectures
_STATX = {"x86_64": 332, "aarch64": 291}
_IN_ROOT, _NO_MAGIC_LINKS = 0x10, 0x02
_EMPTY_PATH, _DONT_SYNC, _BASIC = 0x1000, 0x4000, 0x7FF
_PATH = getattr(os, "O_PATH", 0)  # only Linux has it; recordings, which have their names inside, are read anywhere
_PLACE = _PATH | os.O_NOFOLLOW | os.O_CLOEXEC

_libc = ctypes.CDLL(None, use_errno=True)


class Identity(NamedTuple):
    """Which file it is, and whether it has changed."""

    device: tuple[int, int]
    inode: int
    size: int
    changed_ns: int
    owner: int


@contextmanager
def place(path: str) -> Iterator[int]:
    """A descriptor of a path of the kernel's own (/proc/PID/root, /proc/PID/map_files/…), whose link is followed."""
    if not _PATH:
        raise Unreadable(path, "programs are looked into on Linux only")
    try:
        descriptor = os.open(path, _PATH | os.O_CLOEXEC)
    except OSError as error:
        raise Unreadable(path, (error.strerror or "").lower()) from None
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def inside(root: int, path: str, *, follow: bool = False) -> Iterator[int]:
    """A descriptor of a path in a root: every link on the way is resolved in that root; the last part, if `follow`."""
    descriptor = _resolved(root, path, _PLACE & ~os.O_NOFOLLOW if follow else _PLACE)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def identity(descriptor: int, source: str) -> Identity:
    """Of a regular file that is not too large; anything else is Unreadable. Waits for no file server."""
    raw = ctypes.create_string_buffer(256)
    number = _STATX.get(platform.machine(), -1)
    if _libc.syscall(number, descriptor, b"", _EMPTY_PATH | _DONT_SYNC, _BASIC, raw):
        raise Unreadable(source, os.strerror(ctypes.get_errno()).lower())
    owner, mode, inode, size = struct.unpack_from("=20xI4xH2xQQ", raw)
    seconds, nanoseconds, major, minor = struct.unpack_from("=qI4x16x8xII", raw, 96)
    if not stat.S_ISREG(mode):
        raise Unreadable(source, "not a regular file")
    if size > LARGEST:
        raise Unreadable(source, f"larger than {LARGEST >> 30} GB")
    return Identity((major, minor), inode, size, seconds * 10**9 + nanoseconds, owner)


def contents(descriptor: int, size: int, source: str) -> OnDisk:
    """What is in a file whose identity was asked for before; to be closed."""
    try:
        flags = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
        return OnDisk(os.open(f"/proc/self/fd/{descriptor}", flags), size)
    except OSError as error:
        raise Unreadable(source, (error.strerror or "").lower()) from None


def regular(path: str) -> OnDisk:
    """A file of this machine by its path, links and all, if it is a regular one; to be closed."""
    with place(path) as descriptor:
        return contents(descriptor, identity(descriptor, path).size, path)


def _resolved(root: int, path: str, flags: int) -> int:
    wanted = path.lstrip("/")
    if not wanted or "\0" in wanted:
        raise Unreadable(path, "no such file or directory")
    how = struct.pack("=QQQ", flags, 0, _IN_ROOT | _NO_MAGIC_LINKS)
    for _ in range(3):  # EAGAIN: somebody renamed a folder on the way
        descriptor: int = _libc.syscall(_OPENAT2, root, os.fsencode(wanted), how, len(how))
        if descriptor >= 0:
            return descriptor
        number = ctypes.get_errno()
        if number in (errno.ENOSYS, errno.EPERM):  # an older kernel, or a seccomp filter that does not know the call
            return _walked(root, wanted, path)
        if number != errno.EAGAIN:
            break
    raise Unreadable(path, os.strerror(number).lower())


def _walked(root: int, wanted: str, path: str) -> int:
    """Part by part; a link is not a folder, so it is refused on the way, and `..` is refused anywhere."""
    *folders, last = [part for part in wanted.split("/") if part not in ("", ".")] or [""]
    here = os.dup(root)
    try:
        if ".." in (*folders, last):
            raise Unreadable(path, "a path with .. in it")
        for folder in folders:
            following = os.open(folder, _PLACE | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = following
        return os.open(last, _PLACE, dir_fd=here)
    except OSError as error:
        raise Unreadable(path, (error.strerror or "").lower()) from None
    finally:
        os.close(here)
