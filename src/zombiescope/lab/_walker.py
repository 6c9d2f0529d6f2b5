"""A kubelet-like walker, and what makes its walk long: the statistics of dead cgroups that change all the time.

Reading the root's memory.stat adds up what changed since the last read, cgroup by cgroup, with interrupts off. A dead
cgroup whose page is used again, as a log or a library of a dead pod is, has changed. So a second process, on the same
core and in step with the walker, makes the pages of the dead change lists before each read.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._worker import call_me, die_with_parent


@contextmanager
def walking(stat: str, *, core: int, pause: float = 0.0, pages: str = "", curable: bool = False) -> Iterator[int]:
    """A process on one core that reads `stat` over and over, or every `pause` seconds; gives its pid.

    With `pages`, a file whose pages keep dead cgroups, these have all changed before each read. If that is to be
    `curable`, the pages are let go of after each change, so that they can be dropped; once most of the dead are gone
    there is nothing left to change.
    """
    argv = [sys.executable, "-m", "zombiescope.lab._walker", stat, str(core), str(pause), pages, str(int(curable))]
    process = subprocess.Popen(argv, preexec_fn=die_with_parent)
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _walk(stat: str, pause: float, pages: str, curable: bool) -> None:
    handle = os.open(stat, os.O_RDONLY)
    change = _changer(pages, curable) if pages else None
    while True:
        if change is not None:
            next(change)
        while os.read(handle, 1 << 16):
            pass
        os.lseek(handle, 0, os.SEEK_SET)
        if pause:
            time.sleep(pause)


def _changer(file: str, curable: bool) -> Iterator[None]:
    """A child that changes all pages each time it is asked to; it is done when this goes on."""
    (asked, ask), (told, tell) = os.pipe(), os.pipe()
    if os.fork() == 0:
        die_with_parent()
        call_me("toucher")
        for _ in _changed_by_turns(file) if curable else _changed(file):
            if not os.read(asked, 1):
                os._exit(0)
            os.write(tell, b".")
    while True:
        os.write(ask, b".")
        os.read(told, 1)
        yield


def _changed(file: str) -> Iterator[None]:
    """A page that is locked in memory, or unlocked, changes lists and so its cgroup's statistics.

    Use by programs does the same, one page after the other; this is one call for all, 0.8 µs a page, and so takes less
    than the walk, which needs 1 to 2 µs for each.
    """
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.open(file, os.O_RDWR)
    size = os.fstat(handle).st_size
    with mmap.mmap(handle, size) as memory:
        pages = ctypes.c_void_p(ctypes.addressof(ctypes.c_char.from_buffer(memory))), ctypes.c_size_t(size)
        while True:
            for change in (libc.mlock, libc.munlock):
                yield
                if change(*pages):
                    raise SystemExit(f"cannot lock {file} in memory: {os.strerror(ctypes.get_errno())}")


def _changed_by_turns(file: str) -> Iterator[None]:
    """The same with pages that are held only for the moment, as long as most of their cgroups are there."""
    libc = ctypes.CDLL(None, use_errno=True)
    handle = os.open(file, os.O_RDWR)
    size = os.fstat(handle).st_size
    enough = known_cgroups() - size // mmap.PAGESIZE // 2
    while True:
        yield
        if known_cgroups() >= enough:
            with mmap.mmap(handle, size) as memory:
                start = ctypes.c_char.from_buffer(memory)
                libc.mlock(ctypes.c_void_p(ctypes.addressof(start)), ctypes.c_size_t(size))
                del start  # or the memory could not be let go


def known_cgroups() -> int:
    """Memory cgroups that the kernel keeps, live and dead."""
    with open("/proc/cgroups") as table:
        return next((int(line.split()[2]) for line in table if line.startswith("memory\t")), 0)


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[2])})
    call_me("walker")
    _walk(sys.argv[1], float(sys.argv[3]), sys.argv[4], sys.argv[5] == "1")
