"""A recording's stacks as a Capture: the same samples, weights and names as the timeline has, from disk and memory."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.conftest import CANNOT
from tests.recorder.written import T0, Sampled, written

from zombiescope.core import Host, Reading, Span, Unreadable, UserError
from zombiescope.core.timeline import Timeline
from zombiescope.kernel.cgroup_ids import CgroupIds
from zombiescope.profile.capture import Capture, Function, Who
from zombiescope.recorder import capture as module
from zombiescope.recorder.capture import captured, captured_tape
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


def same(found: Capture, timeline: Timeline, span: Span | None) -> None:
    samples = timeline.samples(span)
    assert len(found) == len(samples)
    assert np.allclose(found.at / 1e9, samples.at, atol=1e-6, rtol=0)
    assert found.cpu.tolist() == samples.cpu.tolist() and found.tid.tolist() == samples.tid.tolist()
    assert np.abs(found.weight / 1e9 - samples.weight).max(initial=0) < 1e-6
    assert [found.whos[it].pid for it in found.who] == samples.pid.tolist()
    assert [found.whos[it].comm for it in found.who] == samples.comm.tolist()
    frames = [tuple(_spelled(it) for it in found.frames[stack]) for stack in range(len(found.frames))]
    assert [frames[it] for it in found.stack] == [samples.frames[it] for it in samples.stack.tolist()]


def _spelled(function: Function) -> str:
    return f"{function.name} [{function.module}]" if function.module else function.name


@settings(deadline=None, max_examples=12)
@given(seed=st.integers(0, 10**6), edges=st.none() | st.tuples(st.floats(-5, 310), st.floats(-5, 310)))
def test_samples_weights_and_names_are_the_timeline_s(
    tmp_path_factory: pytest.TempPathFactory, seed: int, edges: tuple[float, float] | None
) -> None:
    recording = random_recording(tmp_path_factory.mktemp("rec") / "r", seed)
    span = Span(T0 + min(edges), T0 + max(edges)) if edges else None
    same(captured(recording, span), recording.timeline(span), span)


def test_a_sample_that_ends_a_gap_stands_for_the_gap(tmp_path: Path) -> None:
    found = captured(random_recording(tmp_path, 1))
    periods, lengths = np.unique(found.weight, return_counts=True)
    assert periods.tolist() == [10_000_000, 495_000_000]
    assert lengths[1] == len(np.arange(5.0, 290.0, 7.3))
    assert (found.unit, found.clock, found.hz, found.label) == ("nanoseconds", "unix", 100.0, "n")


def test_whose_time_it_is_and_where(tmp_path: Path) -> None:
    found = captured(random_recording(tmp_path, 1, gaps=False))
    assert set(found.whos) == {
        Who(7, "kubelet", "/pods/11"),
        Who(8, "odd \x1b[31m", "cgroup:12"),  # nobody told where that one was
        Who(0, "swapper", ""),
    }
    assert found.busy.all(), "what a recorder kept of an idle core is the work done on it"
    functions = {function for stack in range(len(found.frames)) for function in found.frames[stack]}
    # The same name in a program and in the kernel would be two functions.
    assert {Function("nf_hook", True, "nf_tables"), Function("vfs_read", True), Function("read", False)} <= functions


def test_nothing_recorded_and_nothing_within_the_span(tmp_path: Path) -> None:
    recording = random_recording(tmp_path, 1)
    nothing = captured(recording, Span(T0 + 1000, T0 + 2000))
    assert len(nothing) == 0 and nothing.start == nothing.end == 0 and len(nothing.frames) == 0


def test_too_many_samples_are_refused_with_a_way_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recording = random_recording(tmp_path, 1)
    monkeypatch.setattr(module, "MOST", 500)
    with pytest.raises(UserError, match="more than 500 samples: choose a part with --from and --to"):
        captured(recording)
    assert 0 < len(captured(recording, Span(T0, T0 + 100))) <= 500


def test_samples_whose_stacks_a_torn_file_lost_are_kept_and_say_so(tmp_path: Path) -> None:
    recording = random_recording(tmp_path, 1)
    whole = captured(recording)
    torn = tmp_path / recording.segments[0] / "stacks.arrows"
    torn.write_bytes(torn.read_bytes()[:600])
    (tmp_path / recording.segments[1] / "stacks.arrows").unlink()
    found = captured(opened(str(tmp_path)))
    assert len(found) == len(whole) and any("damaged after" in note for note in found.notes)
    # Ids are hashes of their content: what another segment knows is known.
    assert [found.frames[it] for it in found.stack] == [whole.frames[it] for it in whole.stack]
    (tmp_path / recording.segments[2] / "stacks.arrows").unlink()
    found = captured(opened(str(tmp_path)))
    assert {it.name for stack in range(len(found.frames)) for it in found.frames[stack]} == {"[lost]"}


def test_a_tape_gives_a_capture_too() -> None:
    tape = Tape()
    tape.hz = 100
    tape.chunk("stacks", {"stack": [5, 6], "frames": [("main", "read"), ("main",)], "kernel_frames": [1, 0]})
    for second in range(3):
        at = np.array([T0 + second, T0 + second + 0.9])
        columns = {"at": np.round(at * 1e9).astype(np.int64), "cpu": np.array([0, 1]), "pid": np.array([7, 8])}
        tape.chunk("samples", {**columns, "tid": [7, 9], "comm": ["a", "b"], "stack": np.array([5, 6], np.uint64)})
    tape.add(gap(1, 1.3, 0.6))
    timeline = tape.timeline()
    found = captured_tape(tape, timeline)
    same(found, timeline, None)
    assert set(found.whos) == {Who(7, "a"), Who(8, "b")}, "nobody told of any cgroup"
    assert found.frames[int(found.stack[0])] == [Function("main", False), Function("read", True)]
    assert sorted(found.weight.tolist())[-1] == 595_000_000


@pytest.mark.kernel
def test_a_short_recording_in_memory_gives_the_same() -> None:
    cgroup = Path("/sys/fs/cgroup/unified" if Path("/sys/fs/cgroup/unified").is_dir() else "/sys/fs/cgroup")
    own = cgroup / f"zslab-capture-{os.getpid()}"
    try:
        own.mkdir()
    except OSError as error:
        pytest.skip(CANNOT + f"make a cgroup: {error}")
    spinning = subprocess.Popen([sys.executable, "-c", "while True: pass"])
    try:
        (own / "cgroup.procs").write_text(str(spinning.pid))
        time.sleep(0.2)
        tape = record(Host(), 2.0, only=("proc_stat",), hz=99)
    finally:
        spinning.kill()
        spinning.wait()
        own.rmdir()
    timeline = tape.timeline()
    if not tape.hz or not timeline.looked("cgroup_id"):
        pytest.skip(CANNOT + "sample stacks, or find cgroups by number")
    found = captured_tape(tape, timeline)
    same(found, timeline, None)
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
