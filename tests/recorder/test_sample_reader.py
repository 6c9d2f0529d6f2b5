"""Samples out of recorded rows: what going through every row gives, from disk and memory, whole and damaged."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import CANNOT
from tests.recorder.journal import Journal
from tests.recorder.written import T0, Sampled, written

from zombiescope.core import Host, Reading, Span, Unreadable, UserError
from zombiescope.core.samples import COLUMNS, Function, Samples, Who
from zombiescope.derived.sampled_processes import processes
from zombiescope.kernel.cgroup_ids import CgroupIds
from zombiescope.recorder import sample_reader
from zombiescope.recorder.replay import Recording, opened
from zombiescope.recorder.short import record
from zombiescope.recorder.tape import Tape

STACKS = ("main;work", "main;read|vfs_read;nf_hook [nf_tables]", "|do_idle;net_rx_action", "main;read")
WHOS = ((7, "kubelet", 11), (8, "odd \x1b[31m", 12), (0, "swapper", 0))


def said(what: str, subject: str, value: float, at: float) -> Reading:
    return Reading(what=what, subject=subject, value=value, at=T0 + at, source="/x")


def gap(cpu: int, start: float, length: float) -> Reading:
    return said("core_gap_seconds", f"cpu:{cpu}", length, start)


def random_recording(folder: Path, seed: int, *, gaps: bool = True) -> Recording:
    """Two cores over five minutes, three segments; on one core interrupts are off now and then."""
    rng = np.random.default_rng(seed)
    starts = np.arange(5.0, 290.0, 7.3) if gaps else np.empty(0)
    ends = starts + 0.5
    at = np.sort(np.concatenate([rng.uniform(0, 300, 900), ends]))
    cpu = np.where(np.isin(at, ends), 1, rng.integers(0, 2, len(at)))
    cpu[(cpu == 1) & ((at[:, None] > starts) & (at[:, None] < ends)).any(1)] = 0
    samples = Sampled(at, cpu, rng.integers(0, 3, len(at)), rng.integers(0, 4, len(at)))
    places = [said("cgroup_id", f"cgroup:/pods/{it}", it, minute) for it in (11, 13) for minute in (1.0, 130.0)]
    return written(
        folder, samples, whos=WHOS, stacks=STACKS, readings=[*(gap(1, it, 0.5) for it in starts.tolist()), *places]
    )


Row = tuple[int, int, int, str, tuple[str, ...], int]  # when, on which core, pid, name, stack, what it stands for


def by_hand(recording: Recording, span: Span | None, cpu: int | None, word: str) -> list[Row]:
    """Every row of the recording, one after the other."""
    frames = {row["stack"]: tuple(row["frames"]) for row in recording.table("stacks").to_pylist()}
    gaps = [row for row in recording.table("events").to_pylist() if row["what"] == "core_gap_seconds"]
    ends = {round(row["at"] / 1e9 + row["value"], 4): row["value"] for row in gaps}
    found = []
    for row in recording.table("samples").to_pylist():
        at, names = row["at"] / 1e9, frames[row["stack"]]
        if (span is None or span.holds(at)) and cpu in (None, row["cpu"]) and word in names:
            length = ends.get(round(at, 4)) if row["cpu"] == 1 else None
            weight = 10_000_000 if length is None else round((length - 0.005) * 1e9)
            found.append((row["at"], row["cpu"], row["pid"], row["comm"], names, weight))
    return sorted(found)


def rows_of(found: Samples) -> list[Row]:
    """Of samples the same; their times must be in order."""
    assert np.all(np.diff(found.at) >= 0) and found.at_seconds.tolist() == (found.at / 1e9).tolist()
    assert found.pid.tolist() == found.tid.tolist() and found.seconds == pytest.approx(found.weight_seconds.sum())
    columns = (found.at, found.cpu, found.pid, found.who, found.stack, found.weight)
    return sorted(
        (at, cpu, pid, found.whos[who].comm, found.frames.names(stack), weight)
        for at, cpu, pid, who, stack, weight in zip(*(it.tolist() for it in columns), strict=True)
    )


@settings(deadline=None, max_examples=12)
@given(
    seed=st.integers(0, 10**6),
    edges=st.none() | st.tuples(st.floats(-5, 310), st.floats(-5, 310)),
    cpu=st.none() | st.integers(0, 2),
    word=st.sampled_from(["main", "read", "vfs_read", "nf_hook [nf_tables]", "net_rx_action", "nothing"]),
)
def test_answers_are_those_of_going_through_every_row(
    tmp_path_factory: pytest.TempPathFactory,
    seed: int,
    edges: tuple[float, float] | None,
    cpu: int | None,
    word: str,
) -> None:
    recording = random_recording(tmp_path_factory.mktemp("rec") / "r", seed)
    span = Span(T0 + min(edges), T0 + max(edges)) if edges else None
    timeline = recording.timeline()
    true = by_hand(recording, span, cpu, word)
    assert rows_of(timeline.samples(span, cpu=cpu, wanted=lambda names: word in names)) == true
    # The same when all are read first and then chosen from, and when only that stretch was opened.
    every = timeline.samples(span)
    assert rows_of(every.only(every.cpu == (every.cpu if cpu is None else cpu)).where(lambda it: word in it)) == true
    apart = recording.timeline(span).samples(cpu=cpu).where(lambda names: word in names)
    assert [it[:5] for it in rows_of(apart)] == [it[:5] for it in true]  # the gap may have begun before it


def test_a_sample_that_ends_a_gap_stands_for_the_gap(tmp_path: Path) -> None:
    found = random_recording(tmp_path, 1).timeline().samples()
    periods, lengths = np.unique(found.weight, return_counts=True)
    assert periods.tolist() == [10_000_000, 495_000_000]
    assert lengths[1] == len(np.arange(5.0, 290.0, 7.3))
    assert (found.unit, found.clock, found.hz, found.label) == ("nanoseconds", "unix", 100.0, "n")


def test_no_more_is_read_than_the_question_needs(tmp_path: Path) -> None:
    """A damaged file is noted when it is read: what was not noted was not read."""
    at = np.array([10.0, 130.0, 250.0])
    samples = Sampled(at, np.array([0, 1, 1]), np.array([0, 1, 1]), np.array([0, 1, 2]))
    segments = written(tmp_path, samples, whos=WHOS, stacks=STACKS).segments
    for segment in segments[:2]:
        torn = tmp_path / segment / "samples.arrows"
        torn.write_bytes(torn.read_bytes()[:700])
    recording = opened(str(tmp_path))
    timeline = recording.timeline()
    assert len(timeline.samples(wanted=lambda names: "net_rx_action" in names)) == 1
    assert len(timeline.samples(wanted=lambda names: "no such" in names)) == 0
    assert len(timeline.samples(Span(T0 + 245, T0 + 300))) == 1
    assert recording.damage == []
    assert len(timeline.samples(wanted=lambda names: "vfs_read" in names)) == 0 and len(recording.damage) == 1
    assert len(timeline.samples().notes) == 2


def test_whose_time_it_is_and_where(tmp_path: Path) -> None:
    found = random_recording(tmp_path, 1, gaps=False).timeline().samples()
    assert set(found.whos) == {
        Who(7, "kubelet", "/pods/11"),
        Who(8, "odd \x1b[31m", "cgroup:12"),  # nobody said where that one was
        Who(0, "swapper", ""),
    }
    assert found.busy.all(), "what a recorder kept of an idle core is the work done on it"
    functions = {function for stack in range(len(found.frames)) for function in found.frames[stack]}
    # The same name in a program and in the kernel would be two functions.
    assert {Function("nf_hook", True, "nf_tables"), Function("vfs_read", True), Function("read", False)} <= functions
    assert len(found.frames.functions) == len(functions)


def test_nothing_recorded_and_nothing_within_the_span(tmp_path: Path) -> None:
    recording = random_recording(tmp_path, 1)
    for nothing in (
        recording.timeline(Span(T0 + 1000, T0 + 2000)).samples(),
        recording.timeline().samples(Span(T0 + 1000, T0 + 2000)),
        recording.timeline(Span(T0, T0 + 50)).samples(Span(T0 + 60, T0 + 100)),
    ):
        assert len(nothing) == 0 and nothing.start == nothing.end == 0 and len(nothing.frames) == 0


def test_of_a_stretch_of_time_also_what_was_said_before_it_began(tmp_path: Path) -> None:
    """Where a cgroup is, is said when its first sample in a segment is taken."""
    found = random_recording(tmp_path, 1).timeline(Span(T0 + 50, T0 + 100)).samples()
    assert len(found) and {who.cgroup for who in found.whos} == {"/pods/11", "cgroup:12", ""}


def test_too_many_samples_are_refused_with_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = random_recording(tmp_path, 1)
    monkeypatch.setattr(sample_reader, "MOST", 500)
    with pytest.raises(UserError, match="more than 500 samples: choose a part with --from and --to"):
        recording.timeline().samples()
    assert 0 < len(recording.timeline(Span(T0, T0 + 100)).samples()) <= 500


def test_samples_whose_stacks_a_torn_file_lost_are_kept_and_say_so(tmp_path: Path) -> None:
    recording = random_recording(tmp_path, 1)
    whole = recording.timeline().samples()
    torn = tmp_path / recording.segments[0] / "stacks.arrows"
    torn.write_bytes(torn.read_bytes()[:600])
    (tmp_path / recording.segments[1] / "stacks.arrows").unlink()
    # Ids are hashes of their content: what another segment knows is known, whichever is asked about first.
    timeline = opened(str(tmp_path)).timeline()
    for span in (Span(T0 + 10, T0 + 50), None):
        reading = timeline.samples(span, wanted=lambda names: "read" in names)
        assert rows_of(reading) == rows_of((whole.within(span) if span else whole).where(lambda it: "read" in it))
        assert 0 < len(reading) < len(timeline.samples(span))
    found = timeline.samples()
    assert rows_of(found) == rows_of(whole) and any("damaged after" in note for note in found.notes)
    (tmp_path / recording.segments[2] / "stacks.arrows").unlink()
    timeline = opened(str(tmp_path)).timeline()
    found = timeline.samples()
    assert len(found) == len(whole) and {found.frames.names(it) for it in found.stack.tolist()} == {("[lost]",)}
    assert len(timeline.samples(wanted=lambda names: "[lost]" in names)) == len(whole)
    assert len(timeline.samples(wanted=lambda names: "read" in names)) == 0


def test_a_tape_answers_as_a_recording_on_disk_does(tmp_path: Path) -> None:
    tape = Tape()
    tape.hz = 100
    disk = Journal(str(tmp_path), {"hz": 100}, events=("core_gap_seconds", "cgroup_id"))
    for sink in (tape, disk):
        sink.chunk("stacks", {"stack": [5, 6], "frames": [("main", "read"), ("main",)], "kernel_frames": [1, 0]})
        for second in range(3):
            at = np.round(np.array([T0 + second, T0 + second + 0.9]) * 1e9).astype(np.int64)
            columns = {"at": at, "cpu": np.array([0, 1]), "pid": np.array([7, 8]), "tid": np.array([7, 9])}
            rest = {"comm": ["a", "b"], "cgroup": [0, 3], "stack": np.array([5, 6], np.uint64)}
            sink.chunk("samples", {**columns, **rest})
        sink.add(gap(1, 1.3, 0.6))
        sink.add(said("cgroup_id", "cgroup:/pods/3", 3, 1.0))
    disk.flush(T0)
    disk.close()
    timelines = (tape.timeline(), opened(str(tmp_path)).timeline())
    for found in (timeline.samples() for timeline in timelines):
        assert set(found.whos) == {Who(7, "a"), Who(8, "b", "/pods/3")}
        assert found.frames[int(found.stack[0])] == [Function("main", False), Function("read", True)]
        assert sorted(found.weight.tolist()) == [10_000_000] * 5 + [595_000_000]
        assert processes(found)[0][:2] == ("b", 8) and found.hottest() == ("main",)
    one, other = (timeline.samples(Span(T0 + 1, T0 + 3), cpu=1) for timeline in timelines)
    for name in COLUMNS:
        assert getattr(one, name).tolist() == getattr(other, name).tolist()
    assert one.whos == other.whos and one.reading("x") == other.reading("x")


@pytest.mark.parametrize("older", [False, True])
def test_what_a_sample_stands_for_is_recorded_or_one_period(tmp_path: Path, older: bool) -> None:
    disk = Journal(str(tmp_path), {"hz": 100}, events=())
    disk.chunk("stacks", {"stack": [5], "frames": [("main",)], "kernel_frames": [0]})
    at = np.round((T0 + np.arange(4)) * 1e9).astype(np.int64)
    rows = {name: np.zeros(4, np.int64) for name in ("cpu", "pid", "tid", "cgroup")}
    rest = {"comm": ["a"] * 4, "stack": np.full(4, 5, np.uint64)}
    disk.chunk("samples", {**rows, **rest, "at": at, "weight": np.array([3_000_000, 10_000_000, 10_000_001, 1])})
    disk.chunk("samples", {**rows, **rest, "at": at + 4 * 10**9})  # as sampled by a clock
    disk.flush(T0)
    disk.close()
    expected = [3_000_000, 10_000_000, 10_000_001, 1] + [10_000_000] * 4
    if older:  # a recording of 0.1, which has no such column
        (path,) = tmp_path.glob("*/samples.arrows")
        table = pa.ipc.open_stream(path.read_bytes()).read_all().drop_columns(["weight"])
        with pa.OSFile(str(path), "wb") as file, pa.ipc.new_stream(file, table.schema) as stream:
            stream.write_table(table)
        expected = [10_000_000] * 8
    recording = opened(str(tmp_path))
    timeline = recording.timeline()
    assert timeline.samples().weight.tolist() == expected and not recording.damage
    assert timeline.samples(cpu=0, wanted=lambda names: "main" in names).weight.tolist() == expected


@pytest.mark.kernel
@pytest.mark.beside
def test_a_short_recording_in_memory_says_whose_time_it_is() -> None:
    cgroup = Path("/sys/fs/cgroup/unified" if Path("/sys/fs/cgroup/unified").is_dir() else "/sys/fs/cgroup")
    own = cgroup / f"zslab-samples-{os.getpid()}"
    try:
        own.mkdir()
    except OSError as error:
        pytest.skip(CANNOT + f"make a cgroup: {error}")
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        (own / "cgroup.procs").write_text(str(spinning.pid))
        time.sleep(0.2)
        short = record(Host(), 2.0, only=("proc_stat",), hz=99)
        timeline = short.timeline()
    finally:
        spinning.kill()
        spinning.wait()
        own.rmdir()
    if not short.meta["hz"] or not timeline.looked("cgroup_id"):
        pytest.skip(CANNOT + "sample stacks, or find cgroups by number")
    found = timeline.samples()
    assert 0 < found.only(found.pid == spinning.pid).seconds <= found.seconds
    mine = [who for who in found.whos if who.pid == spinning.pid]
    if timeline.subjects("cgroup_id"):
        assert f"/{own.name}" in {who.cgroup for who in mine}


@pytest.mark.kernel
def test_a_cgroup_is_found_by_its_number_until_it_is_gone() -> None:
    try:
        ids = CgroupIds(Host())
    except Unreadable as error:
        pytest.skip(CANNOT + str(error))
    with ids:
        own = Path(ids.mount) / f"zslab-id-{os.getpid()} \udcff"
        own.mkdir()
        try:
            number = own.stat().st_ino
            assert ids.path(number) == f"/{own.name}"
        finally:
            own.rmdir()
        assert ids.path(number) is None
        assert ids.path(Path(ids.mount).stat().st_ino) == "/"
        before = len(os.listdir("/proc/self/fd"))
        assert all(ids.path(it) is None for it in (0, 2**40, 2**64 - 1))
        assert len(os.listdir("/proc/self/fd")) == before
