"""Settle children: one at a time, modest, and a failure costs one line."""

from __future__ import annotations

import os
import time
from pathlib import Path

from zombiescope.recorder.settling import Settling


def tended(settling: Settling, seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while settling.waiting and time.monotonic() < end:
        settling.tend()
        time.sleep(0.02)


def test_what_cannot_be_settled_is_tried_twice_and_said_once(tmp_path: Path) -> None:
    settling = Settling(str(tmp_path))
    settling.add("1794000000")
    tended(settling)
    assert not settling.waiting and settling.settled == 0
    (said,) = settling.failed
    assert said.startswith("settling 1794000000 ended with ") and said.endswith(": it stays as it was captured")


def test_a_child_runs_when_nobody_else_wants_the_core_and_goes_first_when_memory_is_short(tmp_path: Path) -> None:
    settling = Settling(str(tmp_path))
    for segment in ("1794000000", "1794000120"):
        settling.add(segment)
    settling.tend()
    assert settling._child is not None and settling.waiting == 2
    pid = settling._child[0]
    assert os.sched_getscheduler(pid) == os.SCHED_IDLE
    assert Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == "1000"
    assert "Max data size             1073741824" in Path(f"/proc/{pid}/limits").read_text()
    settling.tend()
    assert settling._child[0] == pid, "one at a time"
    started = time.monotonic()
    settling.finish(0.0)
    assert time.monotonic() - started < 5 and not Path(f"/proc/{pid}").exists()


def test_a_head_is_left_to_somebody_else_for_a_while(tmp_path: Path) -> None:
    for segment in ("1794000000", "1794000120"):
        (tmp_path / segment).mkdir()
        (tmp_path / segment / "head").write_bytes(b"")
    settling = Settling(str(tmp_path), late=0.5)
    settling.add("1794000000")
    settling.add("1794000120")
    settling.tend()
    assert settling._child is None, "not yet"
    (tmp_path / "1794000000" / "head").unlink()  # somebody has
    time.sleep(0.6)
    settling.tend()
    assert settling._child is not None and settling._child[1] == "1794000120"
    tended(settling)
    assert not settling.waiting and all("1794000120" in it for it in settling.failed)


def test_what_a_killed_recorder_left_and_what_is_left_at_the_end_does_not_wait(tmp_path: Path) -> None:
    settling = Settling(str(tmp_path), late=600.0)
    for segment in ("1794000000", "1794000120"):
        (tmp_path / segment).mkdir()
        (tmp_path / segment / "head").write_bytes(b"")
    settling.add("1794000000", late=0.0)
    settling.add("1794000120")
    settling.tend()
    assert settling._child is not None and settling._child[1] == "1794000000"
    settling.finish(30.0)
    assert not settling.waiting
