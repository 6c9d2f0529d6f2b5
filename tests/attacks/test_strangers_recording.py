"""Attacks by a recording that root opens: it says that it is of this node, with addresses and pids of its choice."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import CANNOT, Run
from tests.recorder.heads import Head, ran

from zombiescope.core import Host
from zombiescope.naming.this_machine import Names
from zombiescope.recorder.replay import opened
from zombiescope.recorder.settle_segment import settle_finished
from zombiescope.recorder.stack_series import GIVES, NAME

pytestmark = [pytest.mark.kernel, pytest.mark.beside]
NOBODY = 65534
SECRET, KERNEL = "secret_of_root", "ksys_read"
PROGRAM = f"""
#include <unistd.h>
__attribute__((noinline)) void {SECRET}(void) {{ for (;;) pause(); }}
int main(void) {{ {SECRET}(); }}
"""


@pytest.fixture
def victim(tmp_path: Path) -> Iterator[tuple[int, int]]:
    """A process of root's, and the address of a function in it."""
    if shutil.which("gcc") is None or shutil.which("nm") is None:
        pytest.skip(CANNOT + "compile the program: no gcc")
    program = tmp_path / "victim"
    subprocess.run(["gcc", "-no-pie", "-O1", "-x", "c", "-o", program, "-"], input=PROGRAM, text=True, check=True)
    table = subprocess.run(["nm", program], capture_output=True, text=True, check=True).stdout
    address = next(int(line.split()[0], 16) for line in table.splitlines() if line.endswith(f" {SECRET}"))
    with subprocess.Popen([program]) as process:
        time.sleep(0.1)
        yield process.pid, address + 1
        process.kill()


def kernel_address() -> int:
    lines = Path("/proc/kallsyms").read_text().splitlines()
    found = next((int(it.split()[0], 16) for it in lines if it.endswith(f" {KERNEL}")), 0)
    if not found:
        pytest.skip(CANNOT + "see addresses of the kernel")
    return found + 4


def planted(folder: Path, pid: int, address: int, owner: int = 0, segments: int = 1) -> Path:
    """What a recorder would have written on this node."""
    boot, head, now = Path("/proc/sys/kernel/random/boot_id").read_text().strip(), Head(), time.monotonic()
    head.writer.clock(1, time.time_ns() - time.monotonic_ns())
    chosen = [ran(pid, now + it / 100, address, kernel=[kernel_address()]) for it in range(20)]
    head.ring(0, now + 1, *chosen)
    folder.mkdir(parents=True, mode=0o700)
    meta = {"format": 2, "hz": 100, "node": "n", "kernel": os.uname().release, "boot_id": boot, "sampled": "cpu-clock"}
    (folder / "meta.json").write_text(json.dumps({**meta, "gives": {NAME: list(GIVES)}}))
    for number in range(segments):
        segment = folder / f"179400000{number}"
        segment.mkdir()
        (segment / "head").write_bytes(head.bytes())
    for path in (folder, *folder.rglob("*")):
        os.chown(path, owner, -1)
    return folder


def shown(zombiescope: Run, folder: Path) -> str:
    return zombiescope("flame", str(folder), "--format", "folded", expect=0).stdout


def test_a_recording_of_root_names_what_runs(tmp_path: Path, victim: tuple[int, int], zombiescope: Run) -> None:
    """No attack: the same recording, written by root alone, has its names."""
    said = shown(zombiescope, planted(tmp_path / "rec", *victim))
    assert SECRET in said and KERNEL in said


def test_a_user_s_recording_of_this_boot_gets_no_name(
    tmp_path: Path, victim: tuple[int, int], zombiescope: Run
) -> None:
    """A user makes a recording with this boot's id, a pid of root's and addresses of the kernel; root opens it."""
    folder = planted(tmp_path / "rec", *victim, owner=NOBODY)
    said = shown(zombiescope, folder)
    assert "[unknown]" in said and SECRET not in said and KERNEL not in said
    why = zombiescope("info", str(folder), expect=0).stdout
    assert f"not asked by root for a stranger: {folder} belongs to user {NOBODY}" in why


@pytest.mark.parametrize("name", ["meta.json", "1794000000", "1794000000/head"])
def test_a_part_of_a_user_s_in_a_folder_of_root_s_gets_no_name(
    tmp_path: Path, victim: tuple[int, int], zombiescope: Run, name: str
) -> None:
    """Root has made the folder its own, not what a user had put into it before."""
    folder = planted(tmp_path / "rec", *victim)
    os.chown(folder / name, NOBODY, -1)
    said = shown(zombiescope, folder)
    assert "[unknown]" in said and SECRET not in said and KERNEL not in said


@pytest.mark.parametrize("mode", [0o777, 0o757])
def test_a_folder_above_that_others_can_write_to_gets_no_name(
    tmp_path: Path, victim: tuple[int, int], zombiescope: Run, mode: int
) -> None:
    """The recording belongs to root, and a user can put another one in its place."""
    folder = planted(tmp_path / "above" / "rec", *victim)
    folder.parent.chmod(mode)
    said = shown(zombiescope, folder)
    assert SECRET not in said and KERNEL not in said


def test_a_head_that_is_a_link_gets_no_name(tmp_path: Path, victim: tuple[int, int]) -> None:
    """The recording of root has a link to the head of a user."""
    folder, other = planted(tmp_path / "rec", *victim), planted(tmp_path / "other", *victim, owner=NOBODY)
    (folder / "1794000000" / "head").unlink()
    (folder / "1794000000" / "head").symlink_to(other / "1794000000" / "head")
    frames = opened(str(folder)).table("stacks").to_pylist()
    assert not any(SECRET in name for it in frames for name in it["frames"])


def test_heads_that_were_planted_before_root_records_are_settled_without_names(
    tmp_path: Path, victim: tuple[int, int]
) -> None:
    """A user's folder with heads in it, which root then makes its own and records into."""
    folder = planted(tmp_path / "rec", *victim, owner=NOBODY, segments=2)
    for path in (folder, folder / "meta.json"):
        os.chown(path, 0, 0)
    settle_finished(str(folder), Host())
    assert not (folder / "1794000000" / "head").exists(), "it is settled"
    for path in folder.rglob("*"):
        os.chown(path, 0, 0)
    first = opened(str(folder))
    del first.segments[1:]
    frames = [name for it in first.table("stacks").to_pylist() for name in it["frames"]]
    assert frames and SECRET not in frames and KERNEL not in frames


def test_a_user_s_perf_data_gets_no_name_of_the_running_kernel(tmp_path: Path) -> None:
    """The same by a perf.data file, which names a kernel of this release."""
    path = tmp_path / "perf.data"
    path.write_bytes(b"PERFILE2")
    assert Names(str(path)).kernel(None, os.uname().release) is not None, "no attack: root's own file"
    os.chown(path, NOBODY, -1)
    names = Names(str(path))
    assert names.kernel(None, os.uname().release) is None and not names._of_this_boot
    assert "root does not ask this machine's kernel" in names.notes[0]
