"""Whose priority is raised and taken back, on real processes; what the command says where there is no such card."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack

import pytest
from tests.conftest import CANNOT

from zombiescope.treatment.napi_command import above, back, main

FIFO, RR, OTHER, BATCH = os.SCHED_FIFO, os.SCHED_RR, os.SCHED_OTHER, os.SCHED_BATCH


def now(pid: int) -> tuple[int, int]:
    return os.sched_getscheduler(pid), os.sched_getparam(pid).sched_priority


@pytest.fixture
def sleepers() -> Iterator[dict[tuple[int, int], int]]:
    """Processes that only sleep, by the policy and priority that somebody gave them."""
    with ExitStack() as stack:
        made = {}
        for given in ((OTHER, 0), (BATCH, 0), (FIFO, 60), (FIFO, 30), (RR, 60)):
            child = stack.enter_context(subprocess.Popen(["sleep", "60"]))
            stack.callback(child.kill)
            try:
                os.sched_setscheduler(child.pid, given[0], os.sched_param(given[1]))
            except PermissionError as error:
                pytest.skip(f"{CANNOT}give a process real-time priority: {error.strerror}")
            made[given] = child.pid
        yield made


def test_only_threads_without_real_time_priority_are_raised(sleepers: dict[tuple[int, int], int]) -> None:
    said = above(dict.fromkeys(sleepers.values(), "napi/x-1"), 70)
    assert {given: now(pid) for given, pid in sleepers.items()} == {
        **{given: given for given in sleepers if given[1]},
        (OTHER, 0): (FIFO, 70),
        (BATCH, 0): (FIFO, 70),
    }
    assert [("already has real-time priority" in it) for it in said] == [bool(given[1]) for given in sleepers]


def test_only_the_priority_that_was_given_is_taken_back(sleepers: dict[tuple[int, int], int]) -> None:
    said = back(dict.fromkeys(sleepers.values(), "napi/x-1"), 60)
    assert {given: now(pid) for given, pid in sleepers.items() if now(pid) != given} == {(FIFO, 60): (OTHER, 0)}
    assert said == [f"napi/x-1[{sleepers[FIFO, 60]}]: SCHED_OTHER"]


def test_a_card_that_is_not_there_is_said_and_nothing_is_to_be_taken_back(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["raise", "no-such-card", "60"]) == 1
    assert "no-such-card" in capsys.readouterr().err
    assert main(["lower", "no-such-card", "60"]) == 0
    assert capsys.readouterr().out == "no-such-card has no NAPI thread with priority 60\n"


@pytest.mark.parametrize("priority", ["0", "100", "x"])
def test_priorities_are_1_to_99(priority: str) -> None:
    with pytest.raises(SystemExit) as refused:
        main(["lower", "no-such-card", priority])
    assert refused.value.code == 2
    assert main(["lower", "no-such-card", "1"]) == main(["lower", "no-such-card", "99"]) == 0
