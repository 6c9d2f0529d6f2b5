"""Files of real processes in real namespaces: their own names or none, never those of another file."""

from __future__ import annotations

import os
import re
import subprocess
import time
from functools import partial
from pathlib import Path

import pytest
from tests.naming.programs import LOADER, compiled, library, name_at, needs_root, running
from tests.waiting import until

from zombiescope.core.errors import Unparsable, Unreadable
from zombiescope.kernel.aside import MOST, Aside
from zombiescope.naming import files
from zombiescope.naming.contents import OnDisk, contents
from zombiescope.naming.elf import Elf
from zombiescope.naming.file_systems import MountTables
from zombiescope.naming.mapped import Mapped
from zombiescope.naming.mappings import Mappings
from zombiescope.naming.namer import Namer
from zombiescope.naming.regions import Region
from zombiescope.naming.vdso import vdso

OFFSET = re.compile(r"libwalk\.so\+0x[0-9a-f]+")


@pytest.fixture
def loader(tmp_path: Path) -> Path:
    needs_root()
    return compiled(LOADER, tmp_path / "loader")


def region_of(pid: int, address: int) -> Region:
    found = Mappings()
    found.see([pid], time.monotonic_ns())
    region = found.find(pid, address, time.monotonic_ns())
    assert region is not None
    return region


def elsewhere(region: Region, build_id: bytes = b"", inode: int | None = None) -> Region:
    """The same file, but not to be found through its mapping: as if we might not, or it were unmapped."""
    path = region.path + (" (deleted)" if region.deleted else "")
    whose = region.inode if inode is None else inode
    return Region(region.start + 1, region.end, region.offset + 1, path, build_id, 0, region.device, whose)


def why_not(pid: int, region: Region) -> str:
    with pytest.raises(Unreadable) as refused, Mapped(pid, region, MountTables()) as search:
        search.found()
    return refused.value.why


def test_a_container_gets_the_names_of_its_own_library(loader: Path, tmp_path: Path) -> None:
    ours = library("walk_of_the_host", tmp_path / "lib" / "libwalk.so")
    theirs = library("walk_in_the_container", tmp_path / "image" / "libwalk.so", salt=12345)
    inner = f"mount --bind {theirs} {ours} && exec {loader} {ours} walk_in_the_container"
    namer = Namer()
    with (
        running("unshare", "-m", "sh", "-c", inner) as (container, (there,)),
        running(loader, ours, "walk_of_the_host") as (host, (here,)),
    ):
        assert name_at(container.pid, int(there, 16), namer) == "walk_in_the_container"
        assert name_at(host.pid, int(here, 16), namer) == "walk_of_the_host"
        region = region_of(container.pid, int(there, 16))
        assert region.path == str(ours), "the same path as on the host"
        with Mapped(container.pid, elsewhere(region), MountTables()) as search:
            descriptor, which = search.found()
            assert which.inode == theirs.stat().st_ino
            with_names = Elf.parse(contents(descriptor, which.size, "x"))
        assert "walk_in_the_container" in [name for _, _, name in with_names.functions]


def test_what_only_the_host_has_is_not_opened_for_a_container(loader: Path, tmp_path: Path) -> None:
    """Its root has no such file any more; the host's has one of that name, and even of that build."""
    ours = library("walk_of_the_host", tmp_path / "lib" / "libwalk.so")
    inner = f"mount -t tmpfs none {ours.parent} && cp {tmp_path}/copy {ours} && exec {loader} {ours} walk_of_the_host"
    (tmp_path / "copy").write_bytes(ours.read_bytes())
    with running("unshare", "-m", "sh", "-c", inner) as (container, (there,)):
        region = region_of(container.pid, int(there, 16))
        subprocess.run(["nsenter", "-m", "-t", str(container.pid), "rm", str(ours)], check=True)
        build_id = bytes.fromhex(Elf.parse(ours.read_bytes()).build_id)
        assert why_not(container.pid, elsewhere(region, build_id)) == "no such file or directory"
        assert name_at(container.pid, int(there, 16)) == "walk_of_the_host", "through the mapping it is there"


@pytest.mark.parametrize("upgraded", [False, True])
def test_a_library_deleted_or_upgraded_while_it_runs(upgraded: bool, loader: Path, tmp_path: Path) -> None:
    path = library("walk_as_it_was", tmp_path / "libwalk.so")
    with running(loader, path, "walk_as_it_was") as (process, (address,)):
        before = region_of(process.pid, int(address, 16))
        if upgraded:
            library("walk_of_another_version", path, salt=12345)
        else:
            path.unlink()
        assert name_at(process.pid, int(address, 16)) == "walk_as_it_was"
        if upgraded:
            assert why_not(process.pid, elsewhere(before)) == "replaced by another file"
            with pytest.raises(Unreadable, match="another build"):
                files.Files(Aside(), MountTables())._load(process.pid, elsewhere(before, bytes(range(1, 21))))
        else:
            assert why_not(process.pid, elsewhere(before)) == "no such file or directory"


def test_a_process_that_is_gone_is_named_if_the_file_is_still_the_same(loader: Path, tmp_path: Path) -> None:
    path = library("walk_of_the_host", tmp_path / "libwalk.so")
    found = Mappings()
    with running(loader, path, "walk_of_the_host") as (process, (address,)):
        found.see([process.pid], time.monotonic_ns())
    namer = Namer(mappings=found)
    assert namer.user(process.pid, int(address, 16), time.monotonic_ns()) == ("walk_of_the_host", True)
    path.write_bytes(path.read_bytes())  # the same inode, and changed: a new one
    library("walk_of_another_version", path, salt=12345)
    again = Mappings()
    again._epochs = found._epochs
    region = again.find(process.pid, int(address, 16), time.monotonic_ns())
    assert region is not None
    region.file = None
    name, final = Namer(mappings=again).user(process.pid, int(address, 16), time.monotonic_ns())
    assert OFFSET.fullmatch(name) and final


def test_the_same_library_is_read_once(loader: Path, tmp_path: Path) -> None:
    path = library("walk_of_the_host", tmp_path / "libwalk.so")
    namer = Namer()
    for _ in range(3):
        with running(loader, path, "walk_of_the_host") as (process, (address,)):
            assert name_at(process.pid, int(address, 16), namer) == "walk_of_the_host"
    assert len(namer._files) == 1


def test_a_file_cut_off_while_it_is_read_gives_less_and_no_signal(tmp_path: Path) -> None:
    path = library("walk_of_the_host", tmp_path / "libwalk.so")
    whole = path.read_bytes()
    for left in (0, 30, 100, len(whole) // 2, len(whole) - 100):
        path.write_bytes(whole)
        file = OnDisk(os.open(path, os.O_RDONLY), len(whole))
        os.truncate(path, left)
        try:
            Elf.parse(file)
        except Unparsable:
            assert left < 64
        file.close()


def test_functions_of_the_vdso_are_named() -> None:
    functions = {name: address for address, _, name in Elf.parse(vdso()).functions}
    name = next(it for it in functions if "clock_gettime" in it)
    lines = Path("/proc/self/maps").read_text().splitlines()
    start = next(int(line.split("-")[0], 16) for line in lines if "[vdso]" in line)
    assert name_at(os.getpid(), start + functions[name] + 1) == name


def test_a_disk_that_does_not_answer_costs_a_moment_and_no_more() -> None:
    """Files that are never read to the end: a FIFO's writer stands in for the disk."""
    ends = [os.pipe() for _ in range(MOST + 2)]
    beside = Aside(patience=0.1)
    tasks = [beside.run(partial(os.read, end, 1)) for end, _ in ends]
    assert [task is None for task in tasks] == [False] * MOST + [True, True]
    assert beside.why_full == f"{MOST} reads have not returned: no more are begun until one does"
    for _, end in ends:
        os.write(end, b"x")
    until(lambda: not beside.busy)
    assert beside.run(lambda: b"now") is not None
    assert tasks[0] is not None and tasks[0].result() == b"x" and not beside.why_full
    for pair in ends:
        for end in pair:
            os.close(end)


def test_memory_is_bounded_in_files_and_names(loader: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(files, "MOST_FILES", 3)
    monkeypatch.setattr(files, "MOST_NAMES", 50)
    namer = Namer()
    for number in range(8):
        path = library(f"walk_{number}", tmp_path / f"libwalk{number}.so", salt=number)
        with running(loader, path, f"walk_{number}") as (process, (address,)):
            assert name_at(process.pid, int(address, 16), namer) == f"walk_{number}"
            for near in range(20):
                name_at(process.pid, int(address, 16) + near, namer)
    held = namer._files
    assert len(held) == 3 and sum(len(it.names) for it in held._held) <= 50
    assert len(held._by_build_id) <= 4 and not any(it.dropped for it in held._held)
    with running(loader, tmp_path / "libwalk0.so", "walk_0") as (process, (address,)):
        assert name_at(process.pid, int(address, 16), namer) == "walk_0", "forgotten, and read again"
        for number in range(1, 5):
            with running(loader, tmp_path / f"libwalk{number}.so", f"walk_{number}") as (other, (its,)):
                assert name_at(other.pid, int(its, 16), namer) == f"walk_{number}"
        assert name_at(process.pid, int(address, 16), namer) == "walk_0", "the same mapping, forgotten in between"


def test_a_process_that_was_not_seen_yet_is_asked_for_again(loader: Path, tmp_path: Path) -> None:
    path = library("walk_of_the_host", tmp_path / "libwalk.so")
    with running(loader, path, "walk_of_the_host") as (process, (address,)):
        namer = Namer()
        assert namer.user(process.pid, int(address, 16), time.monotonic_ns())[0] == "[unknown]"
        namer.see([process.pid], time.monotonic_ns())
        assert namer.user(process.pid, int(address, 16), time.monotonic_ns()) == ("walk_of_the_host", True)
