"""How often a file was opened by anybody, as the kernel reports it: a descriptor with O_PATH is no such opening."""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

_OPEN = 0x20  # IN_OPEN of include/uapi/linux/inotify.h
_EVENT = struct.Struct("=iIII")


@contextmanager
def counted(path: Path) -> Iterator[Callable[[], int]]:
    """Counts from now on; of the file itself, wherever it is renamed to."""
    libc = ctypes.CDLL(None, use_errno=True)
    watch = libc.inotify_init1(os.O_NONBLOCK | os.O_CLOEXEC)
    assert watch >= 0 and libc.inotify_add_watch(watch, os.fsencode(path), _OPEN) >= 0
    many = 0

    def count() -> int:
        nonlocal many
        while True:
            try:
                events, at = os.read(watch, 1 << 16), 0
            except BlockingIOError:
                return many
            while at < len(events):
                _, mask, _, length = _EVENT.unpack_from(events, at)
                assert not mask & 0x4000, "the queue overflowed"
                many, at = many + 1, at + _EVENT.size + length

    try:
        yield count
    finally:
        os.close(watch)
