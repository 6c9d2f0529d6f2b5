"""What blocks, blocks itself alone: the others are asked, answered and closed in time."""

from __future__ import annotations

import threading
import time

from zombiescope.recorder.worker import Worker


def collected(worker: Worker[str], seconds: float) -> tuple[list[tuple[str, str]], list[str]]:
    answers, late, end = [], [], time.monotonic() + seconds
    while worker.waiting and time.monotonic() < end:
        answers += worker.answers(wait=0.02)
        late += worker.late()
    return answers, late


def test_one_that_hangs_is_left_behind_and_comes_back() -> None:
    worker, gate = Worker[str](0.3), threading.Event()
    worker.ask("first", lambda: "1")
    worker.ask("hung", lambda: "late" if gate.wait(30) else "")
    worker.ask("last", lambda: "2")
    answers, late = collected(worker, 5)
    assert answers == [("first", "1"), ("last", "2")] and late == ["hung"]
    assert worker.hangs("hung") and not worker.waits("hung") and not worker.waits("last")
    before = threading.active_count()
    gate.set()
    deadline = time.monotonic() + 5
    while worker.hangs("hung") and time.monotonic() < deadline:
        assert not worker.answers(wait=0.05), "what comes too late is not an answer"
    assert not worker.hangs("hung")
    worker.ask("hung", lambda: "now")
    assert collected(worker, 5) == ([("hung", "now")], [])
    assert threading.active_count() < before, "its thread has ended"
    worker.close()


def test_as_many_threads_as_hang_and_one() -> None:
    worker, gate, before = Worker[str](0.1), threading.Event(), threading.active_count()
    for number in range(5):
        worker.ask(f"hung {number}", lambda: str(gate.wait(30)))
    worker.ask("well", lambda: "1")
    answers, late = collected(worker, 10)
    assert answers == [("well", "1")] and late == [f"hung {number}" for number in range(5)]
    assert threading.active_count() <= before + 5
    gate.set()
    worker.close()
