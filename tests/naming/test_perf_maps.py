"""Maps of just-in-time compilers: of real processes, in pid namespaces, and what somebody else put in their place."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.naming.programs import JIT, children, compiled, name_at, needs_root, running

from zombiescope.kernel.perf_changes import Exit
from zombiescope.naming import perf_maps
from zombiescope.naming.namer import Namer

Found = tuple[subprocess.Popen[str], int, int, Path]  # started, its pid here, an address, its map as seen from here


@pytest.fixture
def jit(tmp_path: Path) -> Path:
    needs_root()
    return compiled(JIT, tmp_path / "jit")


@contextmanager
def compiling(jit: Path, *words: str) -> Iterator[Found]:
    """In a container of its own: pid 1 there, with a /tmp of its own."""
    # The program is opened first: it may be in the /tmp that is about to be hidden.
    inner = f"exec 9<{jit} && mkdir -p {jit.parent}/tmp && mount --bind {jit.parent}/tmp /tmp && "
    inner += f"exec /proc/self/fd/9 {' '.join(words)}"
    with running("unshare", "--mount", "--pid", "--fork", "--mount-proc", "sh", "-c", inner) as (process, said):
        address, inside = said
        assert inside == "1"
        (pid,) = children(process.pid)
        yield process, pid, int(address, 16), jit.parent / "tmp" / "perf-1.map"


def test_a_process_is_named_by_the_pid_it_has_in_its_own_namespace(jit: Path) -> None:
    with compiling(jit, "write") as (_, pid, address, _map):
        assert name_at(pid, address) == "JS:*compiled app.js:1"


def test_a_map_that_has_grown_is_read_again(jit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_maps, "AGAIN", 0.05)
    with compiling(jit, "write") as (process, pid, address, _):
        namer = Namer()
        assert name_at(pid, address, namer) == "JS:*compiled app.js:1"
        assert namer.user(pid, address + 0x200, time.monotonic_ns()) == ("[unknown]", False), "it may still come"
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write("\n")
        process.stdin.flush()
        assert process.stdout.readline() == "written\n"
        time.sleep(0.1)
        assert name_at(pid, address + 0x200, namer) == "JS:*later app.js:2"
        assert name_at(pid, address, namer) == "JS:*compiled app.js:1"


def test_it_is_forgotten_with_its_process(jit: Path) -> None:
    namer = Namer()
    with compiling(jit, "write") as (_, pid, address, _map):
        assert name_at(pid, address, namer) == "JS:*compiled app.js:1"
    namer.feed([Exit(time.monotonic_ns(), pid, pid, 1, 1)])
    assert len(namer._perf_maps) == 1, "its last samples are still to be named"
    namer.feed([])
    assert len(namer._perf_maps) == 0


@pytest.mark.parametrize("kind", ["fifo", "link", "folder", "device", "not its own"])
def test_what_is_no_map_of_its_own_is_left_alone_and_said(kind: str, jit: Path) -> None:
    with compiling(jit) as (_, pid, address, path):
        assert name_at(pid, address) == "[unknown]"
        line = f"{address:x} 100 stolen\n"
        if kind == "fifo":
            os.mkfifo(path)
        elif kind == "link":
            (path.parent / "other").write_text(line)
            path.symlink_to("other")
        elif kind == "folder":
            path.mkdir()
        elif kind == "device":
            os.mknod(path, 0o20666, os.makedev(1, 5))
        else:
            path.write_text(line)
            os.chown(path, 12345, 12345)
        namer = Namer()
        assert name_at(pid, address, namer) == "[unknown]"
        assert not namer.reads
        why = namer.unnamed[pid]
        assert ("belongs to user 12345" if kind == "not its own" else "not a regular file") in why
        assert "/tmp/perf-1.map" in why


def test_no_map_is_no_reason(jit: Path) -> None:
    with compiling(jit) as (_, pid, address, _map):
        namer = Namer()
        assert name_at(pid, address, namer) == "[unknown]" and not namer.unnamed


def test_only_so_many_are_kept(jit: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(perf_maps, "MOST_PROCESSES", 2)
    namer = Namer()
    for _ in range(4):
        with compiling(jit, "write") as (_, pid, address, _map):
            assert name_at(pid, address, namer) == "JS:*compiled app.js:1"
    assert len(namer._perf_maps) == 2
