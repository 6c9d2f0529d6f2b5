"""The settle child: a head becomes a segment; live, head and segment give the same answer; kills cost nothing."""

from __future__ import annotations

import io
import json
import os
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import CANNOT
from tests.recorder.heads import META, Head, exited, forked, mapped, named, new_cgroup, of_another_boot, ran

from zombiescope.core import Host
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.examine import examine
from zombiescope.members.rooms import healthy, load
from zombiescope.places.own_python import environment, own_python
from zombiescope.recorder.heads import Heads
from zombiescope.recorder.layout import KINDS
from zombiescope.recorder.replay import opened
from zombiescope.recorder.settle import settled
from zombiescope.recorder.settle_segment import main, settle_finished
from zombiescope.recorder.short import Short, record

CODE = 0x55D000000000
FIRST, SECOND = "1794000000", "1794000120"


def folder_of(path: Path, meta: dict[str, Any], **heads: bytes) -> Path:
    path.mkdir(mode=0o700)
    (path / "meta.json").write_text(json.dumps({"format": 2, **meta}))
    for segment, head in heads.items():
        (path / segment.removeprefix("s")).mkdir(mode=0o700)
        (path / segment.removeprefix("s") / "head").write_bytes(head)
    return path


def answer(timeline: Timeline) -> str:
    """All that a diagnosis says, as JSON; and all that it could have said of the samples."""
    case, out = examine(timeline, node="a", kernel="6.1"), io.StringIO()
    load("outputs", "json").write(case, timeline, out)
    samples = timeline.samples()
    frames = samples.name()
    stacks = [frames.names(it) for it in range(len(frames.starts) - 1)]
    who = [(it.pid, it.comm, it.cgroup) for it in samples.whos]
    rows = zip(*(getattr(samples, it).tolist() for it in ("at", "cpu", "tid", "who", "stack", "weight")), strict=True)
    shown = sorted((at, cpu, tid, who[its], stacks[stack], weight) for at, cpu, tid, its, stack, weight in rows)
    return out.getvalue() + repr(shown)


def busy_node() -> tuple[bytes, dict[str, Any]]:
    """A core is 93 % busy in the kernel for two minutes, and programs come and go."""
    head = Head()
    for tenth in range(1200):
        busy = tenth * 9.3
        stat = f"cpu0 5 0 {busy:.0f} {tenth * 0.7:.0f} 0 0 0 0 0 0\ncpu1 5 0 7 {tenth * 10} 0 0 0 0 0 0\n"
        rest = f"ctxt {tenth}\nprocesses {tenth // 3}\nprocs_running 2\nprocs_blocked 0\n"
        head.fetched("proc_stat", tenth / 10, ("cpu  1 2 3 4 5 6 7 8\n" + stat + rest).encode())
        if tenth % 10 == 9:
            pid, at = 1000 + tenth, tenth / 10
            begun = [forked(pid, 1, at - 0.9), named(pid, at - 0.8, "job", execed=True), new_cgroup(7, "/job", at - 1)]
            maps = [mapped(pid, at - 0.8, CODE, "/usr/bin/job"), mapped(pid, at - 0.8, CODE << 1, "/lib/libc.so.6")]
            ticks = [ran(pid, at - 0.7 + it / 100, CODE + it, (CODE << 1) + 64 * it, cgroup=7) for it in range(60)]
            head.ring(0, at, *begun, *maps, *ticks, exited(pid, at - 0.05))
            head.sample("stacks", at, blind=[("samples_total", "perf", "no hardware counter", "node")])
    gives = {name: list(it.GIVES) for name, it in healthy("probes").items()} | {"stacks": ["samples_total"]}
    return head.bytes(), {**META, "gives": gives}


@pytest.fixture(scope="module")
def busy() -> tuple[bytes, dict[str, Any]]:
    return busy_node()


def test_live_head_and_segment_give_the_same_answer(busy: tuple[bytes, dict[str, Any]], tmp_path: Path) -> None:
    head, meta = busy
    live = answer(Short(Host(), io.BytesIO(head), meta).timeline())
    folder = folder_of(tmp_path / "rec", meta, **{f"s{FIRST}": head})
    raw = answer(opened(str(folder)).timeline())
    assert not (folder / FIRST / "series.arrows").exists()
    assert main([str(folder), FIRST]) == 0
    assert sorted(it.name for it in (folder / FIRST).iterdir()) == sorted(f"{kind}.arrows" for kind in KINDS)
    segment = answer(opened(str(folder)).timeline())
    assert "job+0x" in live and '"found"' in live
    assert raw == live
    assert segment == live


@pytest.mark.kernel
@pytest.mark.beside
def test_also_of_this_machine(tmp_path: Path) -> None:
    look = record(Host(), 3.0, hz=99)
    if not look.meta["hz"]:
        pytest.skip(CANNOT + "sample")
    head = of_another_boot(look.head)  # processes that end between two readings would differ
    live = answer(Short(look.host, io.BytesIO(head), look.meta).timeline())
    folder = folder_of(tmp_path / "rec", look.meta, **{f"s{FIRST}": head})
    raw = answer(opened(str(folder)).timeline())
    assert main([str(folder), FIRST]) == 0
    assert live == raw == answer(opened(str(folder)).timeline())


def test_files_are_private_and_a_part_of_the_span_opens(
    busy: tuple[bytes, dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "umask", os.umask)
    head, meta = busy
    folder = folder_of(tmp_path / "rec", meta, **{f"s{FIRST}": head})
    before = opened(str(folder)).span
    assert main([str(folder), FIRST]) == 0
    recording = opened(str(folder))
    assert recording.span == before and before.seconds == pytest.approx(119.9)
    for path in (*(folder / FIRST).iterdir(), folder / "carry"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert recording.table("samples").num_rows == 60 * 120 and not recording.damage


def test_several_heads_follow_each_other(tmp_path: Path) -> None:
    first, second = Head(), Head()
    first.ring(0, 1.0, forked(9, 1, 0.1), named(9, 0.2, "long", execed=True), mapped(9, 0.3, CODE, "/usr/bin/long"))
    second.ring(0, 2.0, ran(9, 1.5, CODE + 8))
    both = {f"s{FIRST}": first.bytes(), f"s{SECOND}": second.bytes()}
    raw = opened(str(folder_of(tmp_path / "raw", META, **both)))
    assert raw.table("stacks")["frames"].to_pylist() == [["long+0x8"]]
    folder = folder_of(tmp_path / "rec", META, **both)
    assert main([str(folder), FIRST]) == 0
    half = opened(str(folder))
    assert half.table("stacks")["frames"].to_pylist() == [["long+0x8"]], "one is settled, one is not"
    assert main([str(folder), FIRST, SECOND]) == 0, "a settled one is left alone"
    assert opened(str(folder)).table("stacks")["frames"].to_pylist() == [["long+0x8"]]


@pytest.mark.parametrize("kills", [10, pytest.param(200, marks=pytest.mark.long)])
def test_killed_at_any_moment_the_head_is_there_or_all_of_the_segment(
    busy: tuple[bytes, dict[str, Any]], tmp_path: Path, kills: int
) -> None:
    head, meta = busy
    whole = settled(head, meta).table("samples").num_rows
    folder = folder_of(tmp_path / "rec", meta, **{f"s{FIRST}": head})
    argv = own_python("zombiescope.recorder.settle", str(folder), FIRST)
    started = time.monotonic()
    subprocess.run(argv, env=environment(), check=True)
    takes = time.monotonic() - started
    kept = 0
    for number in range(kills):
        for path in (folder / FIRST).iterdir():
            path.unlink()
        (folder / FIRST / "head").write_bytes(head)
        with subprocess.Popen(argv, env=environment()) as child:
            time.sleep(takes * (0.5 + 0.6 * number / kills))
            child.send_signal(signal.SIGKILL)
        kept += (folder / FIRST / "head").exists()
        recording = opened(str(folder))
        assert recording.table("samples").num_rows == whole and not recording.damage
    assert kept, "some were killed before they were done"
    subprocess.run(argv, env=environment(), check=True)
    assert not (folder / FIRST / "head").exists() and opened(str(folder)).table("samples").num_rows == whole


def test_two_children_do_not_meet(busy: tuple[bytes, dict[str, Any]], tmp_path: Path) -> None:
    head, meta = busy
    folder = folder_of(tmp_path / "rec", meta, **{f"s{FIRST}": head})
    argv = own_python("zombiescope.recorder.settle", str(folder), FIRST)
    children = [subprocess.Popen(argv, env=environment(), stderr=subprocess.PIPE) for _ in range(3)]
    assert [(child.wait(), child.stderr.read() if child.stderr else b"") for child in children] == [(0, b"")] * 3
    for child in children:
        if child.stderr:
            child.stderr.close()
    assert opened(str(folder)).table("samples").num_rows == 60 * 120


@pytest.fixture
def strange(tmp_path: Path) -> Iterator[Path]:
    yield folder_of(tmp_path / "rec", META, **{f"s{FIRST}": b""})


def test_what_is_no_head_is_not_opened(strange: Path, capsys: pytest.CaptureFixture[str]) -> None:
    head = strange / FIRST / "head"
    assert main([str(strange), FIRST]) == 0, "empty: nothing to keep"
    for make in (os.mkfifo, lambda it: os.symlink("/etc/passwd", it), os.mkdir):
        make(head)
        assert main([str(strange), FIRST]) == 1
        assert opened(str(strange)).table("series").num_rows == 0
        head.rmdir() if head.is_dir() and not head.is_symlink() else head.unlink()
    said = capsys.readouterr().err
    assert len(said.splitlines()) == 3 and "Traceback" not in said
    assert main([str(strange), "../etc"]) == 2 and main([str(strange)]) == 2
    assert main(["/nonexistent", FIRST]) == 1


def test_a_linked_carry_or_one_of_a_stranger_is_not_followed(strange: Path, tmp_path: Path) -> None:
    kept = tmp_path / "kept"
    kept.write_text("mine")
    (strange / "carry").symlink_to(kept)
    head = Head()
    head.ring(0, 1.0, ran(5, 0.5, CODE))
    (strange / FIRST / "head").write_bytes(head.bytes())
    assert main([str(strange), FIRST]) == 0
    assert kept.read_text() == "mine" and not (strange / "carry").is_symlink()


def test_all_but_the_newest_are_settled_by_who_looks(tmp_path: Path, busy: tuple[bytes, dict[str, Any]]) -> None:
    head, meta = busy
    folder = folder_of(tmp_path / "rec", meta, s1794000000=head, s1794000120=b"damaged", s1794000240=head)
    before = answer(opened(str(folder)).timeline())
    settle_finished(str(folder), None)
    assert not (folder / "1794000000" / "head").exists() and (folder / "1794000000" / "series.arrows").exists()
    assert (folder / "1794000240" / "head").exists(), "it is being written"
    assert answer(opened(str(folder)).timeline()) == before
    settle_finished(str(tmp_path / "nothing"), None)


def test_a_head_that_is_being_written_is_left_alone_whatever_comes_after_it(tmp_path: Path) -> None:
    heads = Heads(str(tmp_path / "rec"), dict(META), hours=1, most_bytes=10**9, settles=False)
    heads.write(0, [Head().bytes()], 1794000000.0)
    (tmp_path / "rec" / "1794999999").mkdir()
    settle_finished(str(tmp_path / "rec"), None)
    assert (tmp_path / "rec" / "1794000000" / "head").exists()
    heads.end()
    settle_finished(str(tmp_path / "rec"), None)
    assert not (tmp_path / "rec" / "1794000000" / "head").exists()
    heads.close()
