"""Open a file that somebody else chose: its type is known before it is opened, and no link leads out of its root.

A descriptor with O_PATH opens nothing: no driver is called, no FIFO waits. statx(2) with AT_STATX_DONT_SYNC asks no
file server. Only a regular file is then opened for reading, through /proc/self/fd, which is that very file, whatever
was put in its place meanwhile. Failures are OSError, as those of os.open.
Kernel: openat2(2) since fddb5d430ad9 (v5.6); before it, and where a seccomp filter does not know it, links are resolved
    by us, and the result is walked part by part without following any. statx(2) since v4.11.
"""

from __future__ import annotations

import errno
import os
import platform
import stat
import struct
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from zombiescope.places.in_root import resolved

if TYPE_CHECKING:  # 5 ms; who opens the kernel's own files alone does not need it
    import ctypes

_OPENAT2 = 437  # the same on all architectures
_STATX = {"x86_64": 332, "aarch64": 291}
_IN_ROOT, _NO_MAGIC_LINKS, _NO_LINKS = 0x10, 0x02, 0x04
_EMPTY_PATH, _DONT_SYNC, _BASIC = 0x1000, 0x4000, 0x7FF
_PATH = getattr(os, "O_PATH", 0)  # only Linux has it; recordings, which have their names inside, are read anywhere
_PLACE = _PATH | os.O_NOFOLLOW | os.O_CLOEXEC
_READ = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOCTTY
_BY_NUMBER = "/proc/self/fd"


class Identity(NamedTuple):
    """Which file it is, and whether it has changed."""

    device: tuple[int, int]
    inode: int
    size: int
    changed_ns: int
    owner: int


def regular(path: str) -> int:
    """A file of this machine by its path, links and all, open for reading if it is a regular one; to be closed."""
    if not _can_reopen():
        return _known_before(path)
    with place(path) as descriptor:
        return reading(descriptor)


def regular_inside(root: str, path: str, *, links: bool = True) -> int:
    """The same of a path in another root; `links` are followed in that root, or refused."""
    if not _can_reopen() and links:
        return _known_before(resolved(root, path)[0])
    with place(root) as top, inside(top, path, follow=links, links=links) as descriptor:
        return reading(descriptor)


def folder_inside(root: str, path: str, *, links: bool = True) -> int:
    """A folder in another root, open to be listed; to be closed."""
    if not _can_reopen() and links:
        return os.open(resolved(root, path)[0], _READ | os.O_DIRECTORY)
    with place(root) as top, inside(top, path, follow=links, links=links) as descriptor:
        return os.open(f"{_BY_NUMBER}/{descriptor}", _READ | os.O_DIRECTORY)


def names(folder: int | str, most: int) -> tuple[list[str], bool]:
    """Up to `most` names in a folder, and whether it has more: whoever fills it decides how many there are."""
    with os.scandir(folder) as entries:
        found = [entry.name for entry in islice(entries, most + 1)]
    return found[:most], len(found) > most


@contextmanager
def place(path: str) -> Iterator[int]:
    """A descriptor of a path of the kernel's own (/proc/PID/root, /proc/PID/map_files/…), whose link is followed."""
    if not _PATH:
        raise OSError(errno.ENOSYS, "files of others are looked into on Linux only")
    descriptor = os.open(path, _PATH | os.O_CLOEXEC)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


@contextmanager
def inside(root: int, path: str, *, follow: bool = False, links: bool = True) -> Iterator[int]:
    """A descriptor of a path in a root: every link on the way is resolved in that root; the last part, if `follow`.

    Without `links`, a path with one on its way is refused.
    """
    descriptor = _resolved(root, path, follow, links)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def identity(descriptor: int) -> Identity:
    """Of a regular file; anything else is refused. Waits for no file server."""
    import ctypes

    raw = ctypes.create_string_buffer(256)
    number = _STATX.get(platform.machine(), -1)
    if _library().syscall(number, descriptor, b"", _EMPTY_PATH | _DONT_SYNC, _BASIC, raw):
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))
    owner, mode, inode, size = struct.unpack_from("=20xI4xH2xQQ", raw)
    seconds, nanoseconds, major, minor = struct.unpack_from("=qI4x16x8xII", raw, 96)
    _check_regular(mode)
    return Identity((major, minor), inode, size, seconds * 10**9 + nanoseconds, owner)


def reading(descriptor: int) -> int:
    """Another descriptor of the same file, for reading if it is a regular one; to be closed."""
    _check_regular(os.fstat(descriptor).st_mode)
    return os.open(f"{_BY_NUMBER}/{descriptor}", _READ)


def _check_regular(mode: int) -> None:
    if not stat.S_ISREG(mode):
        raise OSError(errno.EINVAL, "not a regular file")


def _can_reopen() -> bool:
    return bool(_PATH) and os.path.isdir(_BY_NUMBER)


def _known_before(path: str) -> int:
    """Where Linux's way or /proc is lacking: asked for its type first, then opened without waiting, and asked again."""
    _check_regular(os.stat(path).st_mode)
    descriptor = os.open(path, _READ)
    try:
        _check_regular(os.fstat(descriptor).st_mode)
    except OSError:
        os.close(descriptor)
        raise
    return descriptor


@cache
def _library() -> ctypes.CDLL:
    import ctypes

    return ctypes.CDLL(None, use_errno=True)


def _resolved(root: int, path: str, follow: bool, links: bool) -> int:
    import ctypes

    wanted = path.strip("/") or "."
    if "\0" in wanted:
        raise OSError(errno.ENOENT, os.strerror(errno.ENOENT))
    flags = _PLACE & ~os.O_NOFOLLOW if follow else _PLACE
    how = struct.pack("=QQQ", flags, 0, _IN_ROOT | _NO_MAGIC_LINKS | (0 if links else _NO_LINKS))
    for _ in range(3):  # EAGAIN: somebody renamed a folder on the way
        descriptor: int = _library().syscall(_OPENAT2, root, os.fsencode(wanted), how, len(how))
        if descriptor >= 0:
            return descriptor
        number = ctypes.get_errno()
        if number in (errno.ENOSYS, errno.EPERM):  # an older kernel, or a seccomp filter that does not know the call
            return _walked(root, wanted, follow, links)
        if number != errno.EAGAIN:
            break
    raise OSError(number, os.strerror(number))


def _walked(root: int, path: str, follow: bool, links: bool) -> int:
    """Part by part. Links were resolved before: one that is met now was refused, or put there since, and is refused."""
    top = f"{_BY_NUMBER}/{root}"
    real = resolved(top, path, follow=follow)[0].removeprefix(top) if links else os.path.normpath("/" + path)
    *folders, last = [part for part in real.split("/") if part] or ["."]
    here = os.dup(root)
    try:
        for folder in folders:
            following = os.open(folder, _PLACE | os.O_DIRECTORY, dir_fd=here)
            os.close(here)
            here = following
        return os.open(last, _PLACE, dir_fd=here)
    finally:
        os.close(here)
