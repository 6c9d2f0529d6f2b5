"""File systems that do not answer, and programs that use them: roles of the lab, gone with their starter."""

from __future__ import annotations

import ctypes
import errno
import fcntl
import os
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, suppress

from zombiescope.core import UserError
from zombiescope.lab._scenario import name_for
from zombiescope.lab._worker import LONGEST, play, ready, worker

FREEZE, THAW = 0xC0045877, 0xC0045878  # FIFREEZE, FITHAW: include/uapi/linux/fs.h
_MNT_FORCE, _MNT_DETACH, _NODEV_NOSUID = 1, 2, 6
# include/uapi/linux/fuse.h: requests and the heads of a request and of an answer.
_LOOKUP, _FORGET, _GETATTR, _INIT, _INTERRUPT, _BATCH_FORGET = 1, 2, 3, 26, 36, 42
_HEAD, _ANSWER, _MINOR = struct.Struct("=IIQQIIII"), struct.Struct("=IiQ"), 31
_STARTED = struct.pack("=IIIIHHIIHHI28x", 7, _MINOR, 4096, 0, 12, 9, 4096, 1, 1, 0, 0)
_TOP = struct.pack("=QII6Q3I7I", 1, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0o40755, 2, 0, 0, 0, 4096, 0)
_LONGEST_REQUEST = 1 << 17
_CONTROL = "/sys/fs/fuse/connections"


def file_system_user(role: str, *argv: str) -> AbstractContextManager[int]:
    """A process in one of the roles below, already at work on entry."""
    return worker(__name__, role, *argv)


@contextmanager
def fuse_mount(label: str, seconds: float) -> Iterator[tuple[str, int]]:
    """A FUSE file system whose daemon answers each question about a file after so long; its folder and the daemon."""
    folder = f"/run/{name_for(label)}"
    os.mkdir(folder)
    control = not os.listdir(_CONTROL)
    if control:  # systemd mounts it on every machine that it runs
        ctypes.CDLL(None).mount(b"none", _CONTROL.encode(), b"fusectl", ctypes.c_ulong(0), None)
    try:
        with file_system_user("serves", folder, str(seconds)) as daemon:
            try:
                yield folder, daemon
            finally:
                # What waits for the daemon is told that it is gone, so that it can be ended.
                ctypes.CDLL(None).umount2(folder.encode(), _MNT_FORCE)
    finally:
        ctypes.CDLL(None).umount2(folder.encode(), _MNT_DETACH)
        if control:
            ctypes.CDLL(None).umount2(_CONTROL.encode(), _MNT_DETACH)
        os.rmdir(folder)


@contextmanager
def frozen(folder: str) -> Iterator[None]:
    """The file system at `folder` takes no writes until the end. Its superblock is frozen, not a process."""
    if not _ordered(folder, FREEZE):
        raise UserError(f"{folder}: cannot be frozen")
    try:
        yield
    finally:
        thawed(folder)


def thawed(folder: str) -> bool:
    """Thaw it; whether it was frozen."""
    return _ordered(folder, THAW)


def _ordered(folder: str, order: int) -> bool:
    try:
        place = os.open(folder, os.O_RDONLY)
    except OSError:
        return False
    try:
        fcntl.ioctl(place, order, 0)
        return True
    except OSError:
        return False
    finally:
        os.close(place)


def _freezes(folder: str, seconds: str, pause: str) -> None:
    """Freeze it for moments, again and again, as a snapshot does."""
    ready()
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        _ordered(folder, FREEZE)
        time.sleep(float(seconds))
        _ordered(folder, THAW)
        time.sleep(float(pause))


def _serves(folder: str, seconds: str) -> None:
    """A FUSE daemon with an empty folder; a question about a file in it takes so long."""
    device = os.open("/dev/fuse", os.O_RDWR)
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0".encode()
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(b"zslab", folder.encode(), b"fuse.zslab", ctypes.c_ulong(_NODEV_NOSUID), options):
        print(f"mount {folder}: {os.strerror(ctypes.get_errno())}", flush=True)
        return
    with suppress(OSError):  # the mount is gone
        while True:
            request = os.read(device, _LONGEST_REQUEST)
            _length, kind, unique, *_ = _HEAD.unpack_from(request)
            if kind in (_FORGET, _BATCH_FORGET, _INTERRUPT):
                continue
            if kind == _LOOKUP:
                time.sleep(float(seconds))
            known = {_INIT: _STARTED, _GETATTR: _TOP}.get(kind)
            error = 0 if known else -errno.ENOENT if kind == _LOOKUP else -errno.ENOSYS
            body = known or b""
            os.write(device, _ANSWER.pack(_ANSWER.size + len(body), error, unique) + body)
            if kind == _INIT:
                ready()


def _looks(folder: str, pause: str) -> None:
    """Look for a file there, again and again, as an exporter looks at every mount."""
    ready()
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        os.path.exists(f"{folder}/{time.monotonic_ns()}")
        time.sleep(float(pause))


def _logs(path: str, pause: str, synced: str = "") -> None:
    """Append a line at a time, as a daemon that logs; with `synced` each is to be on the disk before it goes on."""
    with open(path, "ab", buffering=0) as log:
        ready()
        until = time.monotonic() + LONGEST
        while time.monotonic() < until:
            log.write(b"a line of a log, as daemons write one now and then\n" * 20)
            if synced:
                os.fsync(log.fileno())
            time.sleep(float(pause))


def _fills(path: str, size: str, each: str) -> None:
    """Write a file over and over through the page cache, so many bytes a second, as a dump or a download does."""
    page = os.urandom(1 << 20)
    ready()
    until = time.monotonic() + LONGEST
    with open(path, "wb", buffering=0) as file:
        while time.monotonic() < until:
            for _ in range(int(size) // len(page)):
                began = time.monotonic()
                file.write(page)
                time.sleep(max(len(page) / float(each) - (time.monotonic() - began), 0.0))
            file.seek(0)


def _reads(path: str, pause: str) -> None:
    """Read a whole file again and again, as a program reads its own code and data: from the page cache."""
    ready()
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        with open(path, "rb", buffering=0) as file:
            while file.read(1 << 20):
                pass
        time.sleep(float(pause))


def _drops(first: str, pause: str) -> None:
    """Drop the node's page cache, the first time after a while, as a job that is to free memory."""
    ready()
    until = time.monotonic() + LONGEST
    time.sleep(float(first))
    while time.monotonic() < until:
        with open("/proc/sys/vm/drop_caches", "w") as file:
            file.write("1")
        time.sleep(float(pause))


_ROLES: dict[str, Callable[..., None]] = {
    "serves": _serves,
    "reads": _reads,
    "drops": _drops,
    "looks": _looks,
    "logs": _logs,
    "fills": _fills,
    "freezes": _freezes,
}

if __name__ == "__main__":
    play(_ROLES)
