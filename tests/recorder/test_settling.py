"""Settle children: one at a time, modest, and a failure costs one line."""

from __future__ import annotations

import os
import signal
from collections import deque
from functools import partial
from pathlib import Path

from tests.waiting import until

from zombiescope.recorder.heads import together
from zombiescope.recorder.settling import TRIES, Settling


def tended(settling: Settling) -> None:
    def nothing_waits() -> bool:
        settling.tend()
        return not settling.waiting

    until(nothing_waits)


def another(settling: Settling, first: int) -> bool:
    """Whether the first child is over."""
    settling.tend()
    return settling._child is None or settling._child[0] != first


def heads_of(folder: Path, *segments: str) -> None:
    for segment in segments:
        (folder / segment).mkdir()
        (folder / segment / "head").write_bytes(b"")


def test_what_cannot_be_settled_is_tried_twice_and_said_once(tmp_path: Path) -> None:
    heads_of(tmp_path, "1794000000")  # and no meta.json
    settling = Settling(str(tmp_path))
    settling.add("1794000000")
    tended(settling)
    assert not settling.waiting and settling.settled == 0
    (said,) = settling.failed
    assert said.startswith("settling 1794000000 ended with ") and said.endswith(": it stays as it was captured")


def test_a_child_runs_when_nobody_else_wants_the_core_and_goes_first_when_memory_is_short(tmp_path: Path) -> None:
    segments = ["1794000000", "1794000120", "1794000240", "1794000360"]
    heads_of(tmp_path, *segments)
    settling = Settling(str(tmp_path), together=3)
    for segment in segments:
        settling.add(segment)
    settling.tend()
    assert settling._child is not None and settling.waiting == 4
    pid = settling._child[0]
    assert settling._child[1] == segments[:3], "some together"
    assert os.sched_getscheduler(pid) == os.SCHED_IDLE
    assert Path(f"/proc/{pid}/oom_score_adj").read_text().strip() == "1000"
    limits = Path(f"/proc/{pid}/limits").read_text()
    assert "Max data size             1073741824" in limits and "Max cpu time              360" in limits
    settling.tend()
    assert settling._child[0] == pid, "one at a time"
    settling.finish(0.0)
    assert not Path(f"/proc/{pid}").exists() and not settling.settled, "it is not waited for"


def test_a_child_that_gets_no_core_at_idle_priority_gets_an_ordinary_turn(tmp_path: Path) -> None:
    heads_of(tmp_path, "1794000000")
    settling = Settling(str(tmp_path), patience=0.0)
    settling.add("1794000000")
    settling.tend()
    assert settling._child is not None
    pid = settling._child[0]
    assert os.sched_getscheduler(pid) == os.SCHED_IDLE
    os.kill(pid, signal.SIGSTOP)  # nothing else would do while every core is taken
    try:
        settling.tend()
        assert os.sched_getscheduler(pid) == os.SCHED_OTHER
    finally:
        os.kill(pid, signal.SIGCONT)
        settling.finish(0.0)


def test_a_child_that_takes_too_much_cpu_time_is_said_to(tmp_path: Path) -> None:
    heads_of(tmp_path, "1794000000")
    settling = Settling(str(tmp_path))
    settling.add("1794000000")
    for _ in range(TRIES):
        settling.tend()
        assert settling._child is not None
        os.kill(settling._child[0], signal.SIGXCPU)  # as the kernel does at the limit
        pid = settling._child[0]
        until(partial(another, settling, pid))
    assert settling.failed == ["settling 1794000000 took more than 120 s of CPU time: it stays as it was captured"]


def test_heads_that_fill_fast_are_settled_together_and_none_waits_for_more_than_ten_minutes(tmp_path: Path) -> None:
    heads_of(tmp_path, "1794000000", "1794000120", "1794000240")
    settling = Settling(str(tmp_path), together=3)
    settling.ended("1794000000", 120.0)
    settling.ended("1794000120", 120.0)
    settling.tend()
    assert settling._child is None, "a child settles more than two"
    settling.ended("1794000240", 120.0)
    settling.tend()
    assert settling._child is not None and len(settling._child[1]) == 3
    settling.finish(0.0)

    alone = Settling(str(tmp_path))
    alone.ended("1794000000", 600.0)
    alone.tend()
    assert alone._child is not None and alone._child[1] == ["1794000000"]
    alone.finish(0.0)


def test_one_that_ends_its_child_is_tried_again_alone(tmp_path: Path) -> None:
    heads_of(tmp_path, "1794000000", "1794000120")
    settling = Settling(str(tmp_path))
    settling.add("1794000000")
    settling.add("1794000120")
    settling.tend()
    assert settling._child is not None
    first = settling._child[0]
    os.kill(first, 9)

    until(partial(another, settling, first))
    assert settling._child is not None and settling._child[1] == ["1794000000"]
    assert [segment for segment, _ in settling._waiting] == ["1794000120"]
    settling.finish(0.0)


def test_a_head_that_was_dropped_while_it_waited_is_no_trouble(tmp_path: Path) -> None:
    settling = Settling(str(tmp_path))
    settling.add("1794000000")
    settling.tend()
    assert not settling.waiting and not settling.failed


def test_a_head_is_left_to_somebody_else_for_a_while(tmp_path: Path) -> None:
    segments = ["1794000000", "1794000120", "1794000240", "1794000360"]
    heads_of(tmp_path, *segments)
    settling = Settling(str(tmp_path), late=600.0)
    for segment in segments:
        settling.ended(segment, 90.0)
    settling.tend()
    assert settling._child is None, "not yet"
    for segment in segments[:3]:
        (tmp_path / segment / "head").unlink()  # somebody has
    settling._waiting = deque((segment, due - 600.0) for segment, due in settling._waiting)
    settling.tend()
    assert settling._child is not None and settling._child[1] == ["1794000360"]
    tended(settling)
    assert not settling.waiting and all("1794000360" in it for it in settling.failed)


def test_what_a_killed_recorder_left_and_what_is_left_at_the_end_does_not_wait(tmp_path: Path) -> None:
    heads_of(tmp_path, "1794000000", "1794000120")
    settling = Settling(str(tmp_path), late=600.0)
    settling.add("1794000000")
    settling.tend()
    assert settling._child is not None and settling._child[1] == ["1794000000"]
    settling.ended("1794000120", 90.0)
    settling.finish(30.0)
    assert not settling.waiting


def test_heads_that_wait_take_an_eighth_of_the_limit() -> None:
    assert [together(it) for it in (1 << 20, 10**9, 2 * 10**9, 8 * 10**9)] == [1, 2, 5, 8]


def test_heads_that_wait_for_long_are_said(tmp_path: Path) -> None:
    heads_of(tmp_path, "1794000000", "1794000120")
    settling = Settling(str(tmp_path))
    assert not settling.behind
    settling.add("1794000000")
    until(lambda: settling.behind > 0.05)
    settling.ended("1794000120", 0.0)
    assert settling.behind < 60, "the one that has just ended is not due"
