"""When an agent that may fix things begins to: seldom, one at a time, and never in the blackout."""

from __future__ import annotations

from typing import Any

import pytest

from zombiescope.agent.remedying import AGAIN, DAY, Choosing, windows, within
from zombiescope.core import UserError

NOON = 1_794_052_800.0  # 2026-11-07 12:00 UTC


def finding(subject: str = "unit:ecs.service", **more: Any) -> dict[str, Any]:
    told = {"sign": "crash_looping_unit", "subject": subject, "root": True, "remedy": "stop_leaking_unit"}
    return told | more


def test_only_what_two_looks_have_seen() -> None:
    choosing = Choosing()
    assert choosing.choose([finding()], NOON) is None
    assert choosing.choose([], NOON + 60) is None
    assert choosing.choose([finding()], NOON + 120) is None  # it was gone in between
    assert choosing.choose([finding()], NOON + 180) == finding()


@pytest.mark.parametrize("more", [{"root": False}, {"remedy": ""}])
def test_never_a_symptom_nor_what_has_no_safe_plan(more: dict[str, Any]) -> None:
    choosing = Choosing()
    assert [choosing.choose([finding(**more)], NOON + it) for it in range(5)] == [None] * 5


def test_so_many_in_a_day_and_never_the_same_twice() -> None:
    choosing = Choosing(per_day=2)
    every = [finding(), finding("unit:a.service"), finding("unit:b.service")]
    begun = []
    for minute in range(30):
        now = NOON + minute * 60
        if found := choosing.choose(every, now):
            choosing.began(found, now)
            begun.append(found["subject"])
    assert begun == ["unit:ecs.service", "unit:a.service"]  # the most harmful first
    found = choosing.choose(every, NOON + DAY + 60)
    assert found is not None and found["subject"] == "unit:ecs.service"  # a day later


def test_a_clock_that_was_set_back_does_not_free_the_day() -> None:
    choosing = Choosing()
    choosing.began(finding(), NOON)
    for minute in range(3):
        assert choosing.choose([finding("unit:a.service")], NOON - 3600 + minute) is None


def test_what_was_refused_does_not_count_and_waits() -> None:
    choosing = Choosing()
    choosing.began(finding(), NOON)
    choosing.refused(finding(), NOON + 60)
    every = [finding(), finding("unit:a.service")]
    choosing.choose(every, NOON + 120)
    other = choosing.choose(every, NOON + 180)
    assert other is not None and other["subject"] == "unit:a.service"
    assert choosing.choose(every, NOON + 60 + AGAIN) == finding()


def test_the_blackout() -> None:
    choosing = Choosing(blackout=windows("11:00-13:00", "x"))
    assert [choosing.choose([finding()], NOON + it) for it in range(5)] == [None] * 5
    assert choosing.choose([finding()], NOON + 3600) == finding()
    night = windows("22:30-01:00, 12:00-12:01", "x")
    assert [within(NOON + hour * 3600, night) for hour in (0, 0.02, 10.4, 10.5, 12.9, 13.0)] == [
        *(True, False, False, True, True, False)
    ]


@pytest.mark.parametrize("text", ["8-18", "25:00-01:00", "08:00", "08:00-18:60", "08:00-18:00 UTC"])
def test_a_blackout_that_is_not_understood(text: str) -> None:
    with pytest.raises(UserError, match="remediate-blackout"):
        windows(text, "remediate-blackout")
