"""When the next look comes: as the budget allows, and sooner after a crash."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.agent.settle_first import PATIENCE, SettleFirst
from zombiescope.agent.turns import EARLY, SETTLES, Turns

WANTED = 60.0


def turns() -> Turns:
    return Turns(WANTED, SettleFirst(lambda _: False))


def looked(it: Turns, every: float) -> float:
    """A look at the time it is due; when that was."""
    now = it.next
    it.asked(now, every)
    it.looked(every, WANTED)
    return now


def test_a_crash_is_looked_at_soon() -> None:
    it = turns()
    first = looked(it, 200.0)
    assert it.pause == pytest.approx(200.0)
    assert it.alarm(first + 30, WANTED)
    assert it.next == pytest.approx(first + WANTED), "a look every minute is what was asked for"
    assert not it.alarm(first + 31, WANTED), "it is soon enough"
    looked(it, 200.0)
    assert it.pause == pytest.approx(200.0)


def test_a_late_crash_waits_until_it_is_recorded() -> None:
    it = turns()
    first = looked(it, 300.0)
    assert it.alarm(first + 250, WANTED) and it.next == first + 250 + SETTLES


def test_a_crash_during_a_look_is_looked_at_after_it(monkeypatch: pytest.MonkeyPatch) -> None:
    it = turns()
    now = it.next
    it.asked(now, 200.0)
    assert not it.alarm(now + 1, WANTED)
    monkeypatch.setattr(time, "monotonic", lambda: now + 2)
    it.looked(200.0, WANTED)
    assert it.next == now + WANTED


def test_the_first_look_is_not_moved() -> None:
    it = turns()
    before = it.next
    assert not it.alarm(it.asked_at + 1, WANTED) and it.next == before


def test_crashes_without_end_get_few_looks() -> None:
    """The clock does not move here, so none is refilled."""
    it = turns()
    early = 0
    for _ in range(100):
        now = looked(it, 300.0)
        early += it.alarm(now + 1, WANTED)
    assert early == EARLY


@given(st.lists(st.tuples(st.floats(60, 400), st.booleans()), max_size=60))
def test_never_more_often_than_asked_for_nor_less_than_allowed(pauses: list[tuple[float, bool]]) -> None:
    it = turns()
    for every, crash in pauses:
        now = looked(it, every)
        if crash:
            it.alarm(now, WANTED)
        assert WANTED - 1e-6 <= it.pause <= every + 1e-6


def test_what_is_finished_is_settled_before_a_look_and_a_slow_disk_delays_it_once() -> None:
    asked: list[bytes] = []
    settling = SettleFirst(lambda line: not asked.append(line))  # type: ignore[func-returns-value]
    it = Turns(WANTED, settling)
    now = it.next
    assert not it.due(now - 1) and not asked
    assert not it.due(now) and asked == [b'{"do": "settle"}\n']
    assert not it.due(now + 1) and len(asked) == 1
    settling.heard()
    assert it.due(now + 1)
    it.asked(now + 1, WANTED)
    assert not it.due(now + 500), "one look at a time"
    it.looked(WANTED, WANTED)
    now = it.next
    assert not it.due(now) and len(asked) == 2 and it.soonest(now) == 1.0
    assert not it.due(now + PATIENCE - 1)
    assert it.due(now + PATIENCE + 1), "nobody answered"
    it.lost()
    assert not it.due(now + PATIENCE + 2) and len(asked) == 3
