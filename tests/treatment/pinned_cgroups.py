"""Dead cgroups, pinned by pages of files on disk and in tmpfs, below parents of our own."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.conftest import CANNOT

from zombiescope.kernel.memcg_walk import MemoryCgroup, walk
from zombiescope.treatment.purge import Freed

PAGE = mmap.PAGESIZE
SHM = Path("/dev/shm")
NAME = f"zombiescope-test-purge-{os.getpid()}"
ATTEMPTS = 5  # a machine that drops its cache by itself may free our zombies before we do
Parent = Callable[[str], Path]

# Joins each cgroup, takes one page of a file that outlives it, leaves, removes it. "read": of a file that is on disk
# and not cached; "write": a dirty page. Pages wait in a CPU's batch of at most 31 before they get on a list, so it
# stays on one CPU and ends with more pages than that of a file without a name.
LEAK = """
import mmap, os, sys
parent, file, how, label, count = sys.argv[1:]
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
pages = os.open(file, os.O_RDWR | os.O_CREAT)
os.posix_fadvise(pages, 0, 0, os.POSIX_FADV_RANDOM)
home = os.open(os.path.dirname(parent) + "/cgroup.procs", os.O_WRONLY)
for number in range(int(count)):
    folder, place = f"{parent}/{label}-{number}", number * mmap.PAGESIZE
    os.mkdir(folder)
    with open(folder + "/cgroup.procs", "w") as procs:
        procs.write("0")
    os.pread(pages, 1, place) if how == "read" else os.pwrite(pages, b"z", place)
    os.write(home, b"0")
    os.rmdir(folder)
os.pwrite(os.memfd_create("flush"), bytes(64 * mmap.PAGESIZE), 0)
"""


def device_of(path: Path) -> tuple[int, int]:
    return os.major(path.stat().st_dev), os.minor(path.stat().st_dev)


def below(parent: Path) -> Callable[[MemoryCgroup], bool]:
    return lambda cgroup: f"/{parent.name}/" in cgroup.path


def dead(parent: Path) -> int:
    return sum(cgroup.dead and below(parent)(cgroup) for cgroup in walk().cgroups)


def leak(parent: Path, file: Path, how: str, count: int) -> None:
    if how == "read":  # written before, by somebody else, and not cached any more
        file.write_bytes(os.urandom(PAGE) * count)
        with file.open("rb") as opened:
            os.fsync(opened)
            os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    argv = [sys.executable, "-c", LEAK, str(parent), str(file), how, f"{file.name}-{how}", str(count)]
    subprocess.run(argv, check=True, timeout=60)


def undisturbed(look: Callable[[int], Freed | None]) -> Freed:
    """What `look` gives; it gives nothing where the machine has dropped its cache meanwhile, and is called again."""
    for attempt in range(ATTEMPTS):
        if freed := look(attempt):
            return freed
    pytest.skip(f"{CANNOT}keep a page cache: it was dropped {ATTEMPTS} times while we looked")


def cached_pages(file: Path) -> int:
    """Asked of mincore(2), which does not bring pages in."""
    with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_COPY) as mapped:
        told = (ctypes.c_ubyte * (len(mapped) // PAGE))()
        at = ctypes.c_char.from_buffer(mapped)
        refused = ctypes.CDLL(None).mincore(ctypes.byref(at), ctypes.c_size_t(len(mapped)), told)
        del at
    assert not refused
    return sum(page & 1 for page in told)
