"""Files of processes that are held open: always of the process that is asked for, and never more than allowed."""

from __future__ import annotations

import os
import resource
import subprocess
import time
from pathlib import Path

import pytest

from zombiescope.core import Host, Unreadable
from zombiescope.kernel import held_files
from zombiescope.kernel.held_files import HeldFiles


def open_files() -> int:
    return len(os.listdir("/proc/self/fd"))


def test_it_says_what_is_there_now() -> None:
    with HeldFiles(Host()) as files:
        path = f"/proc/{os.getpid()}/comm"
        before, name = files.read(path), Path(path).read_text()
        files.sampled()
        try:
            Path(path).write_text("renamed")
            assert files.read(path) == b"renamed\n" != before
        finally:
            Path(path).write_text(name)


def test_a_process_that_is_gone_is_not_read_and_not_held() -> None:
    before = open_files()
    with HeldFiles(Host()) as files, subprocess.Popen(["sleep", "60"]) as process:
        path = f"/proc/{process.pid}/stat"
        assert files.read(path).startswith(str(process.pid).encode())
        files.sampled()
        assert open_files() == before + 1
        process.kill()
        process.wait()
        with pytest.raises(Unreadable, match="no such"):
            files.read(path)
        assert open_files() == before


@pytest.mark.kernel
def test_another_process_with_the_same_number_is_read() -> None:
    with HeldFiles(Host()) as files:
        with subprocess.Popen(["sleep", "60"]) as first:
            path = f"/proc/{first.pid}/stat"
            assert b"(sleep)" in files.read(path)
            files.sampled()
            first.kill()
        second = _with_number(first.pid)
        if second is None:
            pytest.skip("the next process cannot be given a number: ns_last_pid is not writable, or it was taken")
        try:
            assert b"(sleep)" not in files.read(path)  # they may have begun in the same tick
        finally:
            os.kill(second, 9)
            os.waitpid(second, 0)


def _with_number(pid: int) -> int | None:
    """A child of ours that gets just this number; the kernel gives the one after the last."""
    for _ in range(20):
        try:
            Path("/proc/sys/kernel/ns_last_pid").write_text(str(pid - 1))
        except OSError:
            return None
        child = os.fork()
        if not child:
            time.sleep(60)
            os._exit(0)
        if child == pid:
            return child
        os.kill(child, 9)
        os.waitpid(child, 0)
    return None


def test_what_was_not_read_in_a_sample_is_closed() -> None:
    before = open_files()
    with HeldFiles(Host()) as files:
        files.read("/proc/self/stat")
        files.read("/proc/self/schedstat")
        files.sampled()
        files.read("/proc/self/stat")
        files.sampled()
        assert open_files() == before + 1
    assert open_files() == before


def test_it_leaves_room_for_others() -> None:
    allowed, most = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (3 * held_files.SHARE, most))
    try:
        files = HeldFiles(Host())
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, most))
    before = open_files()
    with files:
        for name in ("stat", "schedstat", "statm", "maps", "comm"):
            read = files.read(f"/proc/self/{name}")
        assert read == Path("/proc/self/comm").read_bytes()
        assert open_files() == before + 3


def test_nothing_of_a_recorded_root_is_held(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/stat").write_text("recorded")
    before = open_files()
    with HeldFiles(Host(str(tmp_path))) as files:
        assert files.read("/proc/stat") == b"recorded"
        assert open_files() == before
