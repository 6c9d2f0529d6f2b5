"""Processes by name: whose they are, and whether all of them can be seen."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.files import node_of

from zombiescope.audit import running
from zombiescope.core import Host, Unreadable


def host(root: Path, **files: str) -> Host:
    return node_of(root, {f"proc/{name.replace('__', '/')}": text for name, text in files.items()})


def test_processes_of_a_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {f"{pid}__comm": f"{name}\n" for pid, name in ((10, "raylet"), (11, "bash"), (12, "raylet"))}
    machine = host(tmp_path, **files, self__comm="raylet\n", **{"99__cmdline": "raylet"})
    assert sorted(running.running(machine, {"raylet"})) == [(10, "raylet"), (12, "raylet")]
    assert not list(running.running(machine, {"ray"}))
    monkeypatch.setattr(running, "MOST", 1)
    with pytest.raises(Unreadable, match="4 processes, of which 1 were read"):
        list(running.running(machine, {"raylet", "bash"}))


def test_all_processes_are_visible_only_where_the_kernel_s_own_are(tmp_path: Path) -> None:
    assert running.sees_all(host(tmp_path / "a", **{"2__comm": "kthreadd\n"}))
    assert not running.sees_all(host(tmp_path / "b", **{"2__comm": "bash\n"}))
    assert not running.sees_all(host(tmp_path / "c", **{"1__comm": "systemd\n"}))


def test_whose_it_is(tmp_path: Path) -> None:
    machine = host(
        tmp_path, **{"7__status": "Name:\tx\nUid:\t0\t0\t0\t0\n", "8__status": "Name:\tx\nUid:\t1000\t0\t0\t0\n"}
    )
    assert running.is_roots(machine, 7) and not running.is_roots(machine, 8) and not running.is_roots(machine, 9)


def test_words_and_cgroup(tmp_path: Path) -> None:
    rows = "12:memory:/a\n3:cpu,cpuacct:/b:c\n0::/unified\nbroken\n"
    machine = host(
        tmp_path,
        **{"7__cmdline": "raylet\0--x=1\0", "7__cgroup": rows, "8__cgroup": "0::/unified\n", "9__cgroup": "\n"},
    )
    assert running.words_of(machine, 7) == ["raylet", "--x=1"] and running.words_of(machine, 1) == []
    assert [running.cgroup_of(machine, pid) for pid in (7, 8, 9, 1)] == ["/a", "/unified", "", ""]


def test_no_more_is_read_than_the_kernel_would_write(tmp_path: Path) -> None:
    files = {"7__comm": "x" * 63 + "\n", "8__comm": "x" * 64 + "\n"}
    for pid, more in ((7, 0), (8, 1)):
        status = "Name:\tx\nUid:\t0\t0\t0\t0\n"
        files[f"{pid}__status"] = status + " " * ((1 << 16) - len(status) + more)
        files[f"{pid}__cmdline"] = "y" * ((1 << 18) + more)
        files[f"{pid}__cgroup"] = "0::/a:b\n" + "\n" * ((1 << 16) - 8 + more)
    machine = host(tmp_path, **files)
    assert [pid for pid, _ in running.running(machine, {"x" * 63, "x" * 64})] == [7]
    assert running.is_roots(machine, 7) and not running.is_roots(machine, 8)
    assert running.words_of(machine, 7) and not running.words_of(machine, 8)
    assert (running.cgroup_of(machine, 7), running.cgroup_of(machine, 8)) == ("/a:b", "")
