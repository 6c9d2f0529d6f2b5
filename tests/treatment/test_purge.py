"""The purge of dead cgroups: real ones, pinned by files on disk and in tmpfs, each rung on its own parent only."""

from __future__ import annotations

import mmap
import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import CANNOT
from tests.loop_disk import loop_disk
from tests.treatment.pinned_cgroups import PAGE, SHM, Parent, below, cached_pages, dead, device_of, leak, undisturbed

from zombiescope.kernel.memcg_walk import Walk, walk
from zombiescope.treatment.purge import Freed, drop_pinning_files

pytestmark = pytest.mark.kernel


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
    assert len(freed.evidence) == 2 and any(
        "not tried: the time budget was used up" in why for why in freed.why_left
    ), freed
    assert not drop_pinning_files(below(mine), seconds=0).evidence


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"device": (4095, 1048575)}, "not mounted here"),
        ({"device": device_of(SHM)}, "cannot be opened by inode number"),
        ({"generation": 0xDEADBEEF}, "no such file any more"),
        ({"inode": 1 << 70}, "such an inode number"),
        ({"inode": -1}, "such an inode number"),
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


@pytest.mark.parametrize("spared", ["written to", "large"])
def test_within_a_budget_no_file_in_use_and_no_large_one_loses_its_cache(
    disk: Path, parent: Parent, spared: str
) -> None:
    """A database's file pins dying cgroups like any other; a small log beside it is dropped."""
    hot, log = disk / "hot", disk / "log"
    folder = parent("budget")
    for file in (hot, log):
        file.write_bytes(b"")
        leak(folder, file, "write", 31)
    if spared == "large":
        with hot.open("ab") as out:
            out.truncate(3 << 20)
    os.sync()
    with hot.open("ab" if spared == "written to" else "rb"):
        hot.read_bytes()
        before = cached_pages(hot)
        freed = drop_pinning_files(below(folder), budget=2 << 20)
        # The kernel may reclaim a few pages of its own accord meanwhile.
        assert cached_pages(hot) >= 0.9 * before > 0 and cached_pages(log) == 0
        assert 25 <= freed.freed <= 34 and freed.left >= 28, freed
        why = "open for writing" if spared == "written to" else "without disrupting anybody"
        assert any(why in it for it in freed.why_left), freed.why_left
    everything = drop_pinning_files(below(folder))
    assert cached_pages(hot) == 0 and everything.left < 20
