"""Who waits for a core does not hang: a limit of time is one for standing still."""

from __future__ import annotations

import os
import select
import subprocess
import sys
import time
from collections.abc import Callable

from tests.waiting import until, waits

from zombiescope.agent.apart import NICE, Apart
from zombiescope.agent.settle_first import SettleFirst
from zombiescope.agent.turns import ANSWERS, LONGEST, Turns
from zombiescope.places.own_processes import children
from zombiescope.recorder.standing import Standing

MOST = 0.4


def answered(act: Callable[[], object], patience: float = 60.0) -> tuple[dict[str, object], list[int]]:
    """What a copy said in the end, and the nice values that it had."""
    copy = Apart(lambda: (act(), ({}, b""))[1], patience=patience, most_seconds=MOST, most_memory=1 << 30, most_cpu=60)
    values = []
    while not copy.over:
        values.append(os.getpriority(os.PRIO_PROCESS, copy._pid))
        copy.step(ready=bool(select.select([copy.reading], [], [], 0.05)[0]))
    return copy.head, list(dict.fromkeys(values))


def work(seconds: float) -> None:
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_a_copy_that_works_for_longer_is_waited_for_and_one_that_stands_still_is_not() -> None:
    head, _ = answered(lambda: work(3 * MOST))
    assert "error" not in head
    head, _ = answered(lambda: time.sleep(60))
    assert "was stopped after" in str(head["error"])


def test_a_copy_that_takes_long_gets_a_better_turn_each_time() -> None:
    _, values = answered(lambda: work(1.0), patience=0.05)
    assert values[0] == 0 and set(values) <= set(NICE)
    if os.geteuid() == 0:
        assert values[-1] == NICE[-1]


def test_what_a_process_did_and_waited_is_no_standing_still() -> None:
    with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as busy:
        try:
            standing = Standing(busy.pid, time.monotonic())
            time.sleep(0.5)
            assert standing.still(time.monotonic()) == 0
            assert children(os.getpid()) and not children(busy.pid)
        finally:
            busy.kill()
    now = time.monotonic()
    assert standing.still(now + 9) > 9, "it has ended"


def test_an_examiner_hangs_only_if_it_stands_still_and_nobody_is_at_work_for_it() -> None:
    it = Turns(60.0, SettleFirst(lambda _: False))
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"]) as still:
        try:
            until(lambda: waits(still.pid))
            now = time.monotonic()
            it.asked(now, 60.0, still.pid)
            assert not it.hangs(now + ANSWERS - 10) and it.hangs(now + ANSWERS + 10)
        finally:
            still.kill()
    it.asked(now, 60.0, os.getpid())
    with subprocess.Popen(["sleep", "600"]) as copy:
        try:
            assert not it.hangs(now + ANSWERS + 10) and it.hangs(now + LONGEST + 1)
        finally:
            copy.kill()
