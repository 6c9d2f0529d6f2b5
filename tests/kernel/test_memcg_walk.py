"""The walk over memory cgroups: real zombies with hostile names, churn, and every variant of the program."""

from __future__ import annotations

import contextlib
import dataclasses
import os
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.kernel.refused import why_not
from tests.waiting import until

from zombiescope.core.errors import Unreadable
from zombiescope.kernel import bpf, memcg_program, memcg_walk
from zombiescope.kernel.btf import Btf
from zombiescope.kernel.memcg_layout import RECORD, STATE_BYTES
from zombiescope.kernel.memcg_offsets import ListHeads, Offsets, offsets_from
from zombiescope.kernel.memcg_records import MemoryCgroup, decode
from zombiescope.kernel.memcg_walk import Walk, walk

SHM = Path("/dev/shm")
HIERARCHY = Path("/sys/fs/cgroup/memory" if Path("/sys/fs/cgroup/memory").is_dir() else "/sys/fs/cgroup")
kernel = pytest.mark.kernel
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="needs root: makes cgroups and reads kernel memory")

# The kernel refuses a line feed in a cgroup's name, but not in a file's.
HOSTILE = [b"plain-%d" % number for number in range(17)]
HOSTILE += [
    b"\x1b[31mred\x1b[0m",
    b"n" * 255,
    b"\xff\xfe not \xc3\x28 utf-8",
    b"tab\tand\rreturn",
    b" $(id) `id` '\" ",
    "\u202etxt".encode(),
]

# Joins each cgroup, dirties one page of a tmpfs file, leaves, removes it. Pages wait in a CPU's batch of at most 31
# before they get on a list, so it stays on one CPU and ends with more pages than that of a file without a name.
LEAK = """
import os, sys
home, parent, file, *names = map(os.fsencode, sys.argv[1:])
os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
pages = os.open(file, os.O_RDWR)
for number, name in enumerate(names):
    folder = parent + b"/" + name
    os.mkdir(folder)
    for place in (folder, home):
        procs = os.open(place + b"/cgroup.procs", os.O_WRONLY)
        os.write(procs, b"0")
        os.close(procs)
        if place is folder:
            os.pwrite(pages, b"z", number * 4096)
    os.rmdir(folder)
flush = os.memfd_create("flush")
os.pwrite(flush, bytes(64 * 4096), 0)
"""

# Keeps 150 empty cgroups, always the newest: more than two batches, of which any may be gone before the next.
CHURN = """
import os, sys, time
parent = sys.argv[1]
number = 0
while True:
    time.sleep(0.0003)  # slower than the kernel frees them: it has 65,535 numbers
    os.mkdir(f"{parent}/churn-{number}")
    if number >= 150:
        os.rmdir(f"{parent}/churn-{number - 150}")
    number += 1
"""


@contextlib.contextmanager
def parent_cgroup(suffix: str) -> Iterator[Path]:
    path = HIERARCHY / f"zombiescope-test-{os.getpid()}-{suffix}"
    path.mkdir()
    try:
        if (path / "cgroup.subtree_control").exists():
            (path / "cgroup.subtree_control").write_text("+memory")
        yield path
    finally:
        for child in os.listdir(path):
            if (path / child).is_dir():
                (path / child).rmdir()
        path.rmdir()


@contextlib.contextmanager
def zombies(parent: Path, file: Path, names: list[bytes]) -> Iterator[None]:
    file.touch()
    try:
        subprocess.run(
            [sys.executable, "-c", LEAK, str(HIERARCHY), str(parent), str(file), *names], check=True, timeout=60
        )
        yield
    finally:
        file.unlink()


@contextlib.contextmanager
def churn(parent: Path) -> Iterator[None]:
    child = subprocess.Popen([sys.executable, "-c", CHURN, str(parent)])
    try:
        until(lambda: (parent / "churn-149").exists())
        yield
        assert child.poll() is None, "the churning child ended by itself"
    finally:
        child.kill()
        child.wait()


def below(found: Walk, parent: Path) -> list[MemoryCgroup]:
    inode = parent.stat().st_ino
    [above] = [cgroup for cgroup in found.cgroups if cgroup.inode == inode and not cgroup.dead]
    assert above.name == parent.name
    assert above.online
    return [cgroup for cgroup in found.cgroups if cgroup.parent_serial == above.serial]


def assert_sound(found: Walk) -> None:
    serials = {cgroup.serial: cgroup for cgroup in found.cgroups}
    assert len(serials) == len(found.cgroups), "a cgroup is there twice"
    [root] = [cgroup for cgroup in found.cgroups if cgroup.parent_serial is None]
    assert (root.level, root.path) == (0, "/")
    for cgroup in found.cgroups:
        if cgroup.parent_serial is not None:
            above = serials[cgroup.parent_serial]
            assert cgroup.level == above.level + 1
            assert cgroup.path == f"{above.path.rstrip('/')}/{cgroup.name}"


@kernel
@needs_root
def test_twenty_three_zombies_with_hostile_names_and_the_file_that_pins_them() -> None:
    file = SHM / f"zombiescope-test-{os.getpid()}\n\x1b[2Jpin"
    with parent_cgroup("names") as parent:
        with zombies(parent, file, HOSTILE):
            found = walk()
            status = file.stat()
            mine = below(found, parent)
            assert_sound(found)
            assert Counter(os.fsencode(cgroup.name) for cgroup in mine) == Counter(HOSTILE)
            assert len(mine) == 23
            assert os.listdir(parent) == [name for name in os.listdir(parent) if not (parent / name).is_dir()]
            for cgroup in mine:
                assert cgroup.dead
                assert not cgroup.online
                assert cgroup.references
                assert cgroup.memory_pages >= 1
                assert (cgroup.anon_pages, cgroup.file_pages, cgroup.children) == (1, 0, 0)
                assert cgroup.pin is not None
                assert (cgroup.pin.kind, cgroup.pin.mapped, cgroup.pin.deleted) == ("shmem", 0, False)
                assert (cgroup.pin.name, cgroup.pin.directory) == (file.name, "/dev/shm")
                assert cgroup.pin.inode == status.st_ino
                assert cgroup.pin.device == (os.major(status.st_dev), os.minor(status.st_dev))
                assert cgroup.pinned_by == f"shmem: dev/shm/{file.name}"
        until(lambda: not below(walk(), parent))  # removing the file releases its zombies


@kernel
@pytest.mark.beside
@needs_root
def test_forty_walks_while_cgroups_come_and_go() -> None:
    file = SHM / f"zombiescope-test-{os.getpid()}-churn"
    names = [b"stays-%d" % number for number in range(23)]
    with parent_cgroup("churn") as parent, zombies(parent, file, names), churn(parent):
        for _ in range(40):
            found = walk()
            assert_sound(found)
            mine = below(found, parent)
            stay = [cgroup for cgroup in mine if cgroup.name.startswith("stays-")]
            assert Counter(os.fsencode(cgroup.name) for cgroup in stay) == Counter(names)
            assert all(cgroup.pin is not None and cgroup.pin.name == file.name for cgroup in stay)
            passing = [cgroup for cgroup in mine if cgroup not in stay]
            assert all(re.fullmatch(r"churn-\d+", cgroup.name) for cgroup in passing)
            assert len(passing) >= 100


@kernel
@needs_root
def test_a_live_cgroup_is_known_by_its_directory_and_is_not_dead() -> None:
    with parent_cgroup("live") as parent:
        inner = parent / "inner"
        inner.mkdir()
        [cgroup] = below(walk(), parent)
        assert (cgroup.name, cgroup.inode, cgroup.dead, cgroup.online) == ("inner", inner.stat().st_ino, False, True)
        assert (cgroup.references, cgroup.pin, cgroup.pinned_by) == (None, None, "")


@kernel
@needs_root
def test_a_walk_is_cheap_and_leaves_nothing_open() -> None:
    before = len(os.listdir("/proc/self/fd"))
    found = walk()
    assert len(os.listdir("/proc/self/fd")) == before
    assert found.version == (1 if HIERARCHY.name == "memory" else 2)
    assert found.batches >= 1
    assert (
        0 < found.kernel_seconds / len(found.cgroups) < 100e-6
    )  # 2 to 4 µs; room for a machine that does other things
    assert found.kernel_seconds >= found.longest_batch_seconds > 0
    assert found.seconds < 5


def variants(offsets: Offsets) -> Iterator[tuple[str, Offsets]]:
    yield "this kernel", offsets
    generations = tuple(ListHeads(offset=600 + 96 * row, many=6) for row in range(8))
    yield (
        "multi-generational LRU",
        dataclasses.replace(
            offsets, lists=(*offsets.lists, *generations), generation_sizes=1300, generation_sizes_count=48
        ),
    )
    yield "before 6.10", dataclasses.replace(offsets, folio_mapcount=None)
    yield "without version 1", dataclasses.replace(offsets, kmem_usage=None, tcpmem_usage=None, memsw_usage=None)
    yield "references counted in the css", dataclasses.replace(offsets, css_reference_data=None, reference_count=16)
    yield "before 5.5", dataclasses.replace(offsets, kernfs_inode_bytes=4, read=4, read_string=45)


@kernel
@pytest.mark.beside
@needs_root
@pytest.mark.parametrize("nodes", [1, 2, 8, 64])
@pytest.mark.parametrize("armed", [False, True])
def test_the_verifier_accepts_every_variant(nodes: int, armed: bool) -> None:
    offsets = offsets_from(Btf.load())
    size = memcg_program.visits_per_batch(nodes) * RECORD.itemsize
    with bpf.Array(STATE_BYTES, "test_state") as state, bpf.Array(size, "test_records") as records:
        for _name, variant in variants(offsets):
            places = {"state": state.descriptor, "records": records.descriptor, "nodes": nodes}
            with bpf.Program(memcg_program.assemble(variant, **places, armed=armed), "test_variant"):
                pass


@kernel
@needs_root
def test_a_kernel_that_cannot_run_on_demand_gives_the_same_answer() -> None:
    offsets = offsets_from(Btf.load())
    file = SHM / f"zombiescope-test-{os.getpid()}-armed"
    names = [b"armed-%d" % number for number in range(97)]
    visits = memcg_program.visits_per_batch(1)
    with (
        parent_cgroup("armed") as parent,
        zombies(parent, file, names),
        bpf.Array(STATE_BYTES, "test_state") as state,
        bpf.Array(visits * RECORD.itemsize, "test_records") as records,
    ):
        places = {"state": state.descriptor, "records": records.descriptor, "nodes": 1}
        with bpf.Program(memcg_program.assemble(offsets, **places, armed=True), "test_armed") as program:
            run = memcg_walk._armed_runner(program, state, Unreadable("test", "not asked"))
            batches = memcg_walk._Batches(state, records, run, visits)
            batches.run_all()
        told = {cgroup.serial for cgroup in decode(batches.filled, offsets, version=1)}
        assert {cgroup.serial for cgroup in below(walk(), parent)} <= told
        assert batches.count > 1


@kernel
@needs_root
def test_without_root_the_reason_and_the_cure_are_told() -> None:
    told = why_not("os.setresuid(65534, 65534, 65534)", "memcg_walk.walk()")
    assert "needs CAP_BPF and CAP_PERFMON, or root" in told


@kernel
@needs_root
@pytest.mark.parametrize("member", ["css_children", "css_sibling", "css_parent", "css_serial", "css_flags", "root_css"])
def test_btf_that_is_not_of_this_kernel_does_no_harm(member: str) -> None:
    offsets = offsets_from(Btf.load())
    visits = memcg_program.visits_per_batch(1)
    for shift in (-16, -8, 8, 16):
        wrong = dataclasses.replace(offsets, **{member: max(getattr(offsets, member) + shift, 0)})
        with (
            bpf.Array(STATE_BYTES, "test_state") as state,
            bpf.Array(visits * RECORD.itemsize, "test_records") as records,
            contextlib.ExitStack() as stack,
            contextlib.suppress(Unreadable),
        ):
            batches = memcg_walk._Batches(state, records, memcg_walk._runner(stack, wrong, state, records, 1), visits)
            batches.run_all()
        assert batches.count < 10_000
