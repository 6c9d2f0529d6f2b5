"""Real dead cgroups by name: every one exactly once, with its parent and the file that pins it; and the lower rungs."""

from __future__ import annotations

import csv
import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import CANNOT, COMMAND, Run
from tests.waiting import until, waits

from zombiescope.lab._zombies import Leak, leaked

pytestmark = [pytest.mark.kernel, pytest.mark.beside, pytest.mark.usefixtures("memory_cgroups")]
TMPFS = "shmem: dev/shm/"


@pytest.fixture
def disk(tmp_path: Path) -> str:
    kind = subprocess.run(["stat", "-fc", "%T", str(tmp_path)], capture_output=True, text=True, check=True).stdout
    if "tmpfs" in kind or "overlay" in kind:
        pytest.skip(CANNOT + f"pin with a disk's page cache: the temporary folder is on {kind.strip()}")
    return str(tmp_path)


def census(zombiescope: Run, *argv: str) -> dict[str, Any]:
    shape: dict[str, Any] = json.loads(zombiescope("census", "--names", "--format", "json", *argv, expect=0).stdout)
    if shape["names_from"] != "bpf":
        pytest.skip(CANNOT + f"walk: {shape['why_none']}")
    return shape


def of(leak: Leak, shape: dict[str, Any]) -> list[dict[str, Any]]:
    return [zombie for zombie in shape["zombies"] if zombie["parent"] == "/" + os.path.basename(leak.parent)]


def test_every_name_exactly_once_with_parent_and_pinning_file(zombiescope: Run, disk: str) -> None:
    """Page cache may be dropped by others on the machine: what it pins is made again if some went by themselves."""
    for _ in range(3):
        with ExitStack() as stack:
            leaks = [
                stack.enter_context(leaked(211, label="test-a", name="docker-{:064x}.scope", folder=disk)),
                stack.enter_context(leaked(223, label="test-b", name="session-{}.scope", folder=disk)),
                stack.enter_context(leaked(227, label="test-c", name="z \x1b[31m{}")),
            ]
            shape = census(zombiescope)
            if [len(of(leak, shape)) for leak in leaks] == [211, 223, 227]:
                break
    for leak in leaks:
        named = of(leak, shape)
        assert sorted(it["name"].replace("\\x1b", "\x1b") for it in named) == sorted(leak.names)
        kind = TMPFS if leak.file.startswith("/dev/shm") else "page cache: "
        assert {pin for it in named for pin in it["pinned_by"]} == {kind + pinned_name(leak)}
        assert all(it["path"] == f"{it['parent']}/{it['name']}" and it["parent_alive"] for it in named)
    by_name = {it["name"]: it for it in shape["families"]}
    for label, dying in {"test-a-<n>/docker-<id>.scope": 211, "test-b-<n>/session-<n>.scope": 223}.items():
        assert by_name[f"/zslab-{label}"]["dying"] == dying
        assert by_name[f"/zslab-{label}"]["hidden_in_parent_bytes"] > dying * 1000


def pinned_name(leak: Leak) -> str:
    folder, name = os.path.split(leak.file)
    return name if folder == "/dev/shm" else f"{os.path.basename(folder)}/{name}"


def test_table_csv_family_and_pins(zombiescope: Run) -> None:
    with leaked(31, label="test") as leak:
        parent = os.path.basename(leak.parent)
        table = zombiescope("census", "--names", "--family", "test-<n>/z<n>", expect=0).stdout
        assert re.search(r"^ *31 .*/zslab-test-<n>/z<n> .*shmem: dev/shm/zslab-test", table, re.MULTILINE)
        rows = list(
            csv.DictReader(
                io.StringIO(zombiescope("census", "--names", "--family", "*test-<n>/z<n>", "--format", "csv").stdout)
            )
        )
        assert {row["path"] for row in rows if row["parent"] == f"/{parent}"} == {
            f"/{parent}/{name}" for name in leak.names
        }
        pins = zombiescope("census", "--names", "--family", "test-<n>/z<n>", "--pinned-by", expect=0).stdout
        assert re.search(rf"^ *31 +shmem: dev/shm/{parent}", pins, re.MULTILINE)


def test_growth_by_family() -> None:
    with (
        leaked(11, label="test-old"),
        subprocess.Popen(
            [COMMAND, "census", "--names", "--seconds", "3", "--format", "json"], stdout=subprocess.PIPE, text=True
        ) as counting,
    ):
        until(lambda: waits(counting.pid))  # it has counted once
        with leaked(13, label="test-new"):
            shape = json.loads(counting.communicate(timeout=60)[0])
    grown = {it["name"]: it["grown"] for it in shape["families"]}
    assert grown["/zslab-test-new-<n>/z<n>"] == 13 and grown["/zslab-test-old-<n>/z<n>"] == 0


def test_watch_streams_births_removals_and_releases(zombiescope: Run, tmp_path: Path) -> None:
    streamed = tmp_path / "events"
    watch = [str(COMMAND), "census", "--watch", "--format", "json"]
    with streamed.open("w") as out, subprocess.Popen(watch, stdout=out, stderr=subprocess.PIPE, text=True) as process:
        try:
            until(lambda: waits(process.pid))  # it listens
            with leaked(7, label="test-watch") as leak:
                pass
            until(lambda: seen_in(streamed, leak) == [7, 7, 7])  # in the kernel's own time
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=30)
        finally:
            process.kill()
    assert seen_in(streamed, leak) == [7, 7, 7]
    rows = [json.loads(line) for line in streamed.read_text().splitlines()]
    assert all(row["age_seconds"] >= 0 for row in rows if row["what"] == "released" and "test-watch" in row["path"])
    assert "removed and still held by the kernel (dying); 0 events lost" in said
    assert zombiescope("census", "--watch", "--root", "/", expect=2).stderr


def seen_in(streamed: Path, leak: Leak) -> list[int]:
    *lines, _torn = streamed.read_text().split("\n")
    mine = [it for it in map(json.loads, lines) if it["path"].startswith(f"/{os.path.basename(leak.parent)}/")]
    return [sum(row["what"] == what for row in mine) for what in ("born", "removed", "released")]


def unprivileged(*argv: str) -> subprocess.CompletedProcess[str]:
    """Root without capabilities: may read what everybody may, and nothing else. (Our own Python must stay readable.)"""
    drop = ["setpriv", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"]
    if shutil.which("setpriv") is None:
        pytest.skip(CANNOT + "drop capabilities: no setpriv")
    return subprocess.run(
        [*drop, sys.executable, "-m", "zombiescope", *argv], capture_output=True, text=True, check=False
    )


def test_without_privilege_it_counts_and_says_which_rung_and_why() -> None:
    with leaked(41, label="test-rung"):
        done = unprivileged("census", "--names", "--format", "json")
    assert done.returncode == 0, done.stderr
    shape = json.loads(done.stdout)
    assert shape["names_from"] == "none" and not shape["zombies"]
    assert "bpf: " in shape["why_none"] and "CAP_BPF" in shape["why_none"] and "lru_gen: " in shape["why_none"]
    assert shape["controllers"]["memory"]["dying"] >= 41


@pytest.mark.parametrize("content", [None, b"", b"\x9f\xeb\x01\x00" + b"\xff" * 60])
def test_a_missing_or_damaged_btf_is_a_lower_rung_not_an_end(
    content: bytes | None, zombiescope: Run, tmp_path: Path
) -> None:
    btf = tmp_path / "btf"
    if content is not None:
        btf.write_bytes(content)
    shape = json.loads(zombiescope("census", "--names", "--format", "json", "--btf", str(btf), expect=0).stdout)
    assert shape["names_from"] in ("none", "lru_gen") and str(btf) in shape["why_none"]
    assert shape["controllers"]["memory"]["dying"] is not None


@pytest.mark.parametrize(
    "argv", [("--family", "x"), ("--pinned-by",), ("--names", "--controller", "pids"), ("--format", "csv")]
)
def test_what_does_not_go_together_is_told(argv: tuple[str, ...], zombiescope: Run) -> None:
    assert zombiescope("census", *argv, expect=2).stderr.startswith("zombiescope: ")
