"""The purge of dead cgroups: real ones, pinned by files on disk and in tmpfs, each rung on its own parent only."""

from __future__ import annotations

import ctypes
import mmap
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import CANNOT
from tests.loop_disk import loop_disk

from zombiescope.core.errors import Unreadable, UserError
from zombiescope.kernel.file_handles import Handles, mounts
from zombiescope.kernel.memcg_walk import MemoryCgroup, Walk, walk
from zombiescope.lab._zombies import memory_folder
from zombiescope.treatment import purge
from zombiescope.treatment.purge import Freed, drop_caches, drop_pinning_files, reclaim, unlink_advice

pytestmark = pytest.mark.kernel

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

AS_NOBODY = """
import os
from zombiescope.core.errors import Unreadable
from zombiescope.treatment import purge
from zombiescope.kernel.file_handles import Handles
os.setresuid(65534, 65534, 65534)
try:
    {}
except Unreadable as no:
    print(no)
"""


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A folder on a file system whose pages are cached and can be dropped, and whose files have numbers to open."""
    kinds = {place.kind for place in mounts().get(device_of(tmp_path), [])}
    if not kinds & {"ext4", "xfs", "f2fs"}:
        pytest.skip(f"{CANNOT}the tests' own folder is not on a disk, but on {kinds}; see pytest --basetemp")
    yield tmp_path
    for file in tmp_path.iterdir():  # pytest would keep them, and they our zombies
        file.unlink()


@pytest.fixture
def shm() -> Iterator[Path]:
    yield SHM / NAME
    (SHM / NAME).unlink(missing_ok=True)


@pytest.fixture
def parent() -> Iterator[Parent]:
    """Makes cgroups that go away with the test, whatever happens in it."""
    made: list[Path] = []

    def make(suffix: str) -> Path:
        path = Path(memory_folder()) / f"{NAME}-{suffix}"
        path.mkdir()
        made.append(path)
        if (path / "cgroup.subtree_control").exists():
            (path / "cgroup.subtree_control").write_text("+memory")
        return path

    yield make
    deadline = time.monotonic() + 10  # a folder cannot go before the process that has just ended in it
    while made:
        try:
            for folder in (*filter(Path.is_dir, made[-1].iterdir()), made[-1]):
                folder.rmdir()
            made.pop()
        except OSError:
            if time.monotonic() > deadline:
                raise
            time.sleep(0.05)


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


def test_only_the_pinning_files_are_dropped(disk: Path, shm: Path, parent: Parent) -> None:
    mine, others, bystander = parent("disk"), parent("tmpfs"), disk / "bystander"
    leak(others, shm, "write", 23)
    [path] = [it.path for it in walk().cgroups if not it.dead and it.inode == mine.stat().st_ino]

    def look(attempt: int) -> Freed | None:
        leak(mine, disk / f"written-{attempt}", "write", 100)
        leak(mine, disk / f"read-{attempt}", "read", 100)
        bystander.write_bytes(bytes(37 * PAGE))
        freed = drop_pinning_files(path)
        return freed if freed.freed + freed.left >= 200 and cached_pages(bystander) == 37 else None

    freed = undisturbed(look)
    assert freed.freed >= 0.99 * (freed.freed + freed.left) and bool(freed.left) == bool(freed.why_left), freed
    assert all(any(f"{disk}/{name}-" in told for told in freed.evidence) for name in ("written", "read"))
    assert dead(mine) <= freed.left and dead(others) == 23, "zombies out of scope were touched"


FOLDERS = """
import os, sys
parent, disk, count = sys.argv[1], sys.argv[2], int(sys.argv[3])
rows = [line.strip().split(":") for line in open("/proc/self/cgroup")]
home = "/sys/fs/cgroup/memory" + next(row[2] for row in rows if "memory" in row[1].split(","))
for number in range(count):
    os.mkdir(f"{parent}/{number}")
    open(f"{parent}/{number}/cgroup.procs", "w").write("0")
    for name in range(100):
        os.makedirs(f"{disk}/{number}/{name}")
    open(f"{home}/cgroup.procs", "w").write("0")
    os.rmdir(f"{parent}/{number}")
os.sync()
"""


def test_metadata_of_a_disk_is_forgotten_too(tmp_path: Path, parent: Parent) -> None:
    """Whoever makes folders is charged for the blocks they are in, and these are cached by the disk, not by a file."""
    if "memory" not in Path("/proc/self/cgroup").read_text():
        pytest.skip(f"{CANNOT}go back to its own memory cgroup of v1")
    mine = parent("metadata")
    with loop_disk(tmp_path) as point:

        def look(attempt: int) -> Freed | None:
            argv = [sys.executable, "-c", FOLDERS, str(mine), str(point / str(attempt)), "20"]
            subprocess.run(argv, check=True, timeout=60)
            if dead(mine) < 20:
                return None
            freed = drop_pinning_files(below(mine))
            return freed if freed.freed else None

        freed = undisturbed(look)
    # Blocks that the journal has not written to their place yet are in use, so how many go is not known before.
    assert any(line.startswith("metadata on /dev/loop") for line in freed.evidence) and freed.freed > 0, freed


def test_a_file_in_use_is_left_alone_and_named(disk: Path, parent: Parent) -> None:
    mine = parent("mapped")

    def look(attempt: int) -> Freed | None:
        file = disk / f"used-{attempt}"
        leak(mine, file, "read", 7)
        with file.open("rb") as opened, mmap.mmap(opened.fileno(), 0, access=mmap.ACCESS_READ) as mapped:
            assert mapped[::PAGE]  # brings each page into the page table
            freed = drop_pinning_files(below(mine))
        assert not any(file.name in told for told in freed.evidence), "a file in use was dropped"
        return freed if freed.left >= 7 else None

    freed = undisturbed(look)
    assert any("/used-" in why and "mapped: a running process" in why for why in freed.why_left), freed


def test_a_budget_is_kept_and_told(disk: Path, parent: Parent) -> None:
    mine = parent("budget")

    def look(attempt: int) -> Freed | None:
        for number in range(5):
            leak(mine, disk / f"{attempt}-{number}", "read", 3)
        freed = drop_pinning_files(below(mine), rounds=1, files=2)
        return freed if freed.left >= 9 else None

    freed = undisturbed(look)
    assert len(freed.evidence) == 2 and any("not tried: the budget was spent" in why for why in freed.why_left), freed
    assert not drop_pinning_files(below(mine), seconds=0).evidence


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"device": (4095, 1048575)}, "not mounted here"),
        ({"device": device_of(SHM)}, "cannot be opened by number"),
        ({"generation": 0xDEADBEEF}, "no such file any more"),
        ({"inode": 1 << 70}, "can have such a number"),
        ({"inode": -1}, "can have such a number"),
    ],
)
def test_what_cannot_be_opened_is_a_reason(disk: Path, parent: Parent, change: dict[str, Any], why: str) -> None:
    mine = parent("hostile")

    def altered() -> Walk:  # what a page may say that is read while it changes
        found = walk()
        return replace(found, cgroups=[replace(it, pin=it.pin and replace(it.pin, **change)) for it in found.cgroups])

    def look(attempt: int) -> Freed | None:
        leak(mine, disk / f"file-{attempt}", "read", 5)
        freed = drop_pinning_files(below(mine), look=altered)
        return freed if freed.left else None

    freed = undisturbed(look)
    assert not freed.evidence and any(why in reason for reason in freed.why_left), freed


def test_only_files_are_opened_and_nothing_stays_open(disk: Path) -> None:
    os.mkfifo(disk / "pipe")
    before = len(os.listdir("/proc/self/fd"))
    with Handles() as handles, pytest.raises(Unreadable):
        handles.open(device_of(disk), (disk / "pipe").stat().st_ino, 0)
    assert len(os.listdir("/proc/self/fd")) == before


def test_who_may_not_is_told_what_is_missing(disk: Path) -> None:
    def told(does: str) -> str:
        argv = [sys.executable, "-c", AS_NOBODY.format(does)]
        return subprocess.run(argv, capture_output=True, text=True, check=True, timeout=60).stdout

    assert "needs CAP_DAC_READ_SEARCH" in told(f"Handles().open({device_of(disk)}, {disk.stat().st_ino}, 0)")
    assert "denied" in told("purge._write(purge.DROP_CACHES, '1', 10)").lower()
    assert "needs CAP_BPF" in told("purge.drop_caches(whole_node=True)")


def test_tmpfs_is_told_and_never_touched_nor_forced(shm: Path, parent: Parent) -> None:
    mine = parent("advice")
    leak(mine, shm, "write", 23)
    advice = unlink_advice(below(mine))
    assert advice.why_left == (f"23 by {shm}: remove or truncate it",)
    with pytest.raises(UserError, match="whole_node=True"):
        drop_caches(below(mine))
    rungs = [advice, drop_pinning_files(below(mine)), drop_caches(below(mine), whole_node=True)]
    if len(Path("/proc/swaps").read_text().splitlines()) == 1:
        rungs.append(reclaim(below(mine)))
        assert any(words in rungs[-1].why_left[0] for words in ("cannot be emptied", "no zombie there has pages"))
    for freed in rungs:  # they see that it would be for nothing, and do nothing
        assert (freed.freed, freed.left, freed.evidence) == (0, 23, ()) and freed.why_left
    shm.unlink()
    deadline = time.monotonic() + 30
    while dead(mine):
        assert time.monotonic() < deadline, "the advice was wrong"


def test_reclaim_frees_what_lies_on_disk_and_spares_the_living(disk: Path, parent: Parent) -> None:
    mine = parent("reclaim")

    def look(attempt: int, allow_live: bool = False) -> Freed | None:
        leak(mine, disk / f"file-{attempt}", "write", 97)
        freed = reclaim(below(mine), allow_live=allow_live)
        return freed if freed.freed + freed.left >= 97 else None

    freed = undisturbed(look)
    assert freed.left <= 1 and f" > {mine}/memory." in freed.evidence[0], freed
    (mine / "inner").mkdir()
    lives = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(120)"])
    try:
        (mine / "inner" / "cgroup.procs").write_text(str(lives.pid))
        refused = undisturbed(lambda attempt: look(10 + attempt))
        assert refused.left >= 90 and not refused.evidence and "processes run there" in refused.why_left[0]
        assert undisturbed(lambda attempt: look(20 + attempt, allow_live=True)).left <= 1
    finally:
        lives.kill()
        lives.wait()


def test_a_write_that_lasts_is_stopped_and_one_refused_is_told(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "unread")
    started = time.monotonic()
    assert purge._write(f"{tmp_path}/unread", "0", 0.3).endswith("/unread (stopped: time limit reached)")
    assert 0.3 <= time.monotonic() - started < 3
    with pytest.raises(Unreadable, match="no such file or directory"):
        purge._write(f"{tmp_path}/absent", "0", 10)


@pytest.mark.parametrize("rung", [drop_pinning_files, unlink_advice, reclaim])
def test_a_scope_without_dead_is_no_error(rung: Callable[[str], Freed]) -> None:
    freed = rung(f"/{NAME}/none")
    assert (freed.freed, freed.left, freed.why_left) == (0, 0, ())
    with pytest.raises(UserError, match="begins with /"):
        rung("kubepods")
