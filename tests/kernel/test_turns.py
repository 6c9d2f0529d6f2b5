"""Programs beyond their budget rest, but not for a moment each: attaching and detaching interrupts every core."""

from __future__ import annotations

import time

import pytest

from zombiescope.kernel.turns import SHORTEST, Turns


def test_rest_is_owed_until_it_is_worth_while() -> None:
    done: list[str] = []
    turns = Turns(lambda: done.append("attach"), lambda: done.append("detach"), most=1000.0)
    turns.begin()
    turns.end_round(4_000)  # in no time: four seconds of rest
    assert done == ["attach"] and not turns.resting()
    turns.end_round(4_500)
    assert done == ["attach", "detach"] and turns.resting()
    assert turns.rest_until - time.monotonic() == pytest.approx(8.5, abs=0.4)


def test_a_round_with_few_events_pays_back() -> None:
    turns = Turns(lambda: None, lambda: None, most=1000.0)
    turns.begin()
    turns.end_round(int(1000 * (SHORTEST - 0.1)))
    time.sleep(0.3)
    turns.end_round(0)
    turns.end_round(200)
    assert not turns.resting()
