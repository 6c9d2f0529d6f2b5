"""Processes that contend for a memory map, or read another's: roles of the lab, gone with their starter."""

from __future__ import annotations

import ctypes
import mmap
import os
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, suppress

import numpy as np

from zombiescope.lab._worker import LONGEST, play, ready, worker

_READ, _WRITE = mmap.PROT_READ, mmap.PROT_READ | mmap.PROT_WRITE


def memory_user(role: str, *argv: str, within: tuple[str, ...] = ()) -> AbstractContextManager[int]:
    """A process in one of the roles below, already at work on entry."""
    return worker(__name__, role, *argv, within=within)


def _protects(threads: str, size: str, pause: str) -> None:
    """Threads of one process that change the rights of their memory over and over: each change holds the memory map."""
    libc = ctypes.CDLL(None, use_errno=True)
    with suppress(PermissionError):  # a thread that is not on a core at the same time sleeps instead of spinning
        os.setpriority(os.PRIO_PROCESS, 0, -15)
    pieces = [_touched(int(size)) for _ in range(int(threads))]
    workers = [threading.Thread(target=_protect, args=(libc, it, float(pause)), daemon=True) for it in pieces]
    for thread in workers:
        thread.start()
    ready()
    time.sleep(LONGEST)


def _protect(libc: ctypes.CDLL, memory: mmap.mmap, pause: float) -> None:
    """ctypes lets other threads run during the call, as any program written in C does."""
    start = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory)))
    length = ctypes.c_size_t(len(memory))
    while True:
        for rights in (_READ, _WRITE):
            libc.mprotect(start, length, rights)
        if pause:
            time.sleep(pause)


def _holds(size: str) -> None:
    """A process with much memory, which touches a page of it now and then."""
    memory = _touched(int(size))
    ready()
    until, place = time.monotonic() + LONGEST, 0
    while time.monotonic() < until:
        memory[place] = 1
        place = (place + 7919 * mmap.PAGESIZE) % len(memory)
        time.sleep(0.01)


def _starts(size: str, pause: str) -> None:
    """A process with much memory in small pages, which forks for a helper again and again."""
    memory = mmap.mmap(-1, int(size), flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    memory.madvise(mmap.MADV_NOHUGEPAGE)
    np.frombuffer(memory, np.uint8)[:: mmap.PAGESIZE] = 1
    ready()
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)
        time.sleep(float(pause))


def _measures(pid: str, pause: str) -> None:
    """Ask which pages of a process were used lately, as cadvisor's referenced memory does: smaps, then clear_refs."""
    ready()
    until = time.monotonic() + LONGEST
    while time.monotonic() < until:
        with open(f"/proc/{pid}/smaps", "rb") as smaps:
            while smaps.read(1 << 16):
                pass
        with open(f"/proc/{pid}/clear_refs", "w") as refs:
            refs.write("1")
        time.sleep(float(pause))


def _touched(size: int) -> mmap.mmap:
    """Memory of ordinary pages, each of them there: a huge page would be one entry of a table instead of 512."""
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    with suppress(OSError):  # a kernel without huge pages refuses, which is fine
        memory.madvise(mmap.MADV_NOHUGEPAGE)
    np.frombuffer(memory, np.uint8)[:: mmap.PAGESIZE] = 1
    return memory


_ROLES: dict[str, Callable[..., None]] = {
    "protects": _protects,
    "holds": _holds,
    "measures": _measures,
    "starts": _starts,
}

if __name__ == "__main__":
    play(_ROLES)
