"""Which processes of a recording are ours: the command and what it starts; not a program that uses the library."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from tests.conftest import Run

from zombiescope.core import Reading
from zombiescope.kernel.perf_changes import Exit, Fork
from zombiescope.places import own_processes
from zombiescope.recorder.own_forks import OwnProcesses, ours_now
from zombiescope.recorder.replay import opened


def test_what_ours_starts_is_ours_until_it_ends() -> None:
    told: list[Reading] = []
    ours = OwnProcesses(told.append)
    ours.feed([Fork(1, 5, 5, 4, 4)], 0)
    assert not told, "nothing is ours before the capture said so"
    ours.said(Reading(what="own_process", subject="pid:7", value=1, at=0.0, source="/proc/7"))
    ours.said(Reading(what="recorder_memory_bytes", subject="pid:4", value=1, at=0.0, source="/proc/7"))
    ours.feed([Fork(10, 8, 8, 7, 7), Fork(11, 9, 9, 8, 8), Fork(12, 6, 6, 4, 4), Exit(20, 8, 8, 7, 7)], 10**9)
    assert [(it.subject, it.value) for it in told] == [("pid:8", 1), ("pid:9", 1), ("pid:8", 0)]
    assert told[-1].at == pytest.approx(1.0, abs=1e-6)


def test_a_program_that_uses_the_library_is_not_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(own_processes, "_begun", set())
    assert not ours_now()
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as child:
        own_processes.begin(child.pid)
        assert [it.subject for it in ours_now()] == [f"pid:{child.pid}"]
        assert child.stdin is not None
        child.stdin.close()


@pytest.mark.e2e
def test_a_recording_says_who_recorded(tmp_path: Path, zombiescope: Run) -> None:
    zombiescope("record", str(tmp_path / "rec"), "--for", "1s", "--hz", "0", expect=0)
    assert opened(str(tmp_path / "rec")).timeline().subjects("own_process", "pid")
