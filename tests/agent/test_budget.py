"""How often it looks, by what a look and all else cost; and what a real process costs."""

from __future__ import annotations

import os
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.agent.budget import SAVED, Account, cpu_of, memory_of

EVERY, WINDOW, BUDGET = 60.0, 600.0, 0.01


def pauses(look: float, others: float, many: int) -> list[float]:
    """Of so many looks that all cost the same, one after the other."""
    now, found = 0.0, list[float]()
    account = Account(now)
    for _ in range(many):
        account.looked(now, look, others=others, budget=BUDGET)
        found.append(account.pause(EVERY, WINDOW, look))
        now += found[-1]
    return found


@pytest.mark.parametrize(
    ("look", "others", "in_the_end"),
    [
        (0.1, 0.003, 60.0),  # as asked
        (0.7, 0.003, 100.0),  # 0.7 s in 100 s and 0.3 % are the budget
        (0.4, 0.02, 100.0),  # the others take it all: two fifths of it are for looks
        (30.0, 0.003, 300.0),  # never so seldom that a moment is looked at once only
    ],
)
def test_the_pause_when_nothing_is_saved_any_more(look: float, others: float, in_the_end: float) -> None:
    assert pauses(look, others, 200)[-1] == pytest.approx(in_the_end)


def test_trouble_after_quiet_hours_is_looked_at_as_often_as_asked_until_savings_are_used_up() -> None:
    account, now = Account(0.0), 0.0
    for _ in range(60):  # quiet looks: 0.2 s in 60 s of the 0.6 % that are left
        account.looked(now, 0.2, others=0.004, budget=BUDGET)
        assert account.pause(EVERY, WINDOW, 0.2) == EVERY
        now += EVERY
    found = []
    for _ in range(40):
        account.looked(now, 1.0, others=0.006, budget=BUDGET)
        found.append(account.pause(EVERY, WINDOW, 1.0))
        now += found[-1]
    soon = found.index(next(it for it in found if it > EVERY))
    assert 7 <= soon <= 12, "half an hour of 0.4 % are 7.2 s, and 0.24 s come in with each"
    assert found[-1] == pytest.approx(250.0)


@given(st.lists(st.tuples(st.floats(0.05, 0.8), st.floats(0.0, 0.004)), min_size=1, max_size=80))
def test_looks_never_cost_more_than_their_share_and_what_is_saved(looks: list[tuple[float, float]]) -> None:
    account, now, spent = Account(0.0), 0.0, 0.0
    dearest = max(look for look, _ in looks)
    for look, others in looks:
        account.looked(now, look, others=others, budget=BUDGET)
        spent += look
        assert spent <= BUDGET * (SAVED + now) + 2 * dearest, "one that was dearer than the last is noticed after it"
        now += account.pause(EVERY, WINDOW, look)


def test_the_cost_of_a_process_with_its_children_that_ended() -> None:
    burns = "import os, time\nif not os.fork():\n while time.process_time() < 0.5: pass\n os._exit(0)\nos.wait()\n"
    hold = "held = bytearray(50_000_000)\nprint('ready', flush=True)\ntime.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", burns + hold], stdout=subprocess.PIPE) as process:
        assert process.stdout and process.stdout.readline()
        time.sleep(0.05)
        assert 0.4 < cpu_of(process.pid) < 5
        assert 50_000_000 < memory_of(process.pid) < 100_000_000
        process.kill()
    assert cpu_of(process.pid) == 0 and memory_of(process.pid) == 0
    assert memory_of(os.getpid()) > 1_000_000
