"""A process that reads statistics like kubelet, and what makes each read long: dying cgroups whose statistics change.

Reading the root's memory.stat adds up what changed since the last read, cgroup by cgroup, with interrupts off. A dying
cgroup changes when one of its pages is used again, such as a log or a library of a removed pod. So a second process,
on the same core and in step with the walker, maps and unmaps the pages of the dying cgroups before each read.
"""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._worker import call_me, die_with_parent
from zombiescope.places.own_python import FOLDER, environment, own_python


@contextmanager
def walking(stat: str, *, core: int, pause: float = 0.0, pages: str = "") -> Iterator[int]:
    """A process on one core that reads `stat` over and over, or every `pause` seconds; yields its pid.

    With `pages`, a file whose pages pin dying cgroups, all of these change before each read; once most of the dying
    cgroups are gone there is nothing left to change.
    """
    pages = os.path.abspath(pages) if pages else ""
    argv = own_python("zombiescope.lab._walker", stat, str(core), str(pause), pages)
    process = subprocess.Popen(argv, preexec_fn=die_with_parent, cwd=FOLDER, env=environment())
    try:
        yield process.pid
    finally:
        process.kill()
        process.wait()


def _walk(stat: str, pause: float, pages: str) -> None:
    handle = os.open(stat, os.O_RDONLY)
    change = _changer(pages) if pages else None
    while True:
        if change is not None:
            next(change)
        while os.read(handle, 1 << 16):
            pass
        os.lseek(handle, 0, os.SEEK_SET)
        if pause:
            time.sleep(pause)


def _changer(file: str) -> Iterator[None]:
    """A child that changes all pages each time it is asked to; each next() asks it and waits."""
    (asked, ask), (told, tell) = os.pipe(), os.pipe()
    if os.fork() == 0:
        die_with_parent()
        call_me("toucher")
        changes = _changed(file)
        while os.read(asked, 1):
            next(changes)  # complete before it says so: a walk that begins in the middle of it has little to add up
            os.write(tell, b".")
        os._exit(0)
    while True:
        os.write(ask, b".")
        os.read(told, 1)
        yield


def _changed(file: str) -> Iterator[None]:
    """Map and unmap all pages, while most of their cgroups still exist: each is counted for its cgroup (file_mapped).

    Normal use does the same page by page. Locking them in memory would take their cgroups' LRU locks besides.
    """
    handle = os.open(file, os.O_RDWR)
    size = os.fstat(handle).st_size
    enough = known_cgroups() - size // mmap.PAGESIZE // 2
    while True:
        if known_cgroups() >= enough:
            mmap.mmap(handle, size, mmap.MAP_SHARED | mmap.MAP_POPULATE, mmap.PROT_READ).close()
        yield


def known_cgroups() -> int:
    """Memory cgroups that the kernel holds, live and dying."""
    with open("/proc/cgroups") as table:
        return next((int(line.split()[2]) for line in table if line.startswith("memory\t")), 0)


if __name__ == "__main__":
    os.sched_setaffinity(0, {int(sys.argv[2])})
    call_me("walker")
    _walk(sys.argv[1], float(sys.argv[3]), sys.argv[4])
