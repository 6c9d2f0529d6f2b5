"""What blocks, blocks itself alone: the others are asked, done and closed in time."""

from __future__ import annotations

import threading
import time

from tests.waiting import until

from zombiescope.recorder.worker import Worker


def collected(worker: Worker, seconds: float) -> tuple[list[str], list[str]]:
    done, late, end = [], [], time.monotonic() + seconds
    while worker.waiting and time.monotonic() < end:
        done += worker.done(wait=0.02)
        late += worker.late()
    return done, late


def nothing() -> None:
    """A task that is done at once."""


def test_one_that_hangs_is_left_behind_and_comes_back() -> None:
    worker, gate, found = Worker(0.3), threading.Event(), list[str]()
    worker.ask("first", lambda: found.append("1"))
    worker.ask("hung", lambda: found.append("late") if gate.wait(30) else None)
    worker.ask("last", lambda: found.append("2"))
    done, late = collected(worker, 5)
    assert done == ["first", "last"] and late == ["hung"] and found == ["1", "2"]
    assert worker.hangs("hung") and not worker.waits("hung") and not worker.waits("last")
    before = threading.active_count()
    gate.set()

    def came_back() -> bool:
        assert not worker.done(wait=0.05), "what comes too late is not done in time"
        return not worker.hangs("hung")

    until(came_back)
    worker.ask("hung", nothing)
    assert collected(worker, 5) == (["hung"], [])
    assert threading.active_count() < before, "its thread has ended"
    worker.close()


def test_as_many_threads_as_hang_and_one() -> None:
    worker, gate, before = Worker(0.1), threading.Event(), threading.active_count()
    for number in range(5):
        worker.ask(f"hung {number}", lambda: gate.wait(30))
    worker.ask("well", nothing)
    done, late = collected(worker, 10)
    assert done == ["well"] and late == [f"hung {number}" for number in range(5)]
    assert threading.active_count() <= before + 5
    gate.set()
    worker.close()
