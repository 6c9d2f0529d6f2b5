"""A finding begins, changes, ends; one that flaps is one; what could not be looked at has not ended."""

from __future__ import annotations

from typing import Any

import pytest

from zombiescope.agent.findings import HOLD, Followed, identity

EVERY = 60.0
T0 = 1_794_000_000.0
UNIT = "unit:ecs.service"


def finding(end: float, *, start: float | None = None, severity: str = "warning", **more: Any) -> dict[str, Any]:
    return {
        "sign": "crash_looping_unit",
        "subject": UNIT,
        "says": "keeps crashing",
        "severity": severity,
        "span": [T0 if start is None else start, end],
        "root": True,
        "harm": {"says": ""},
        "chain": [],
        "evidence": [],
    } | more


def look(end: float, *findings: dict[str, Any], state: str = "found") -> dict[str, Any]:
    return {"span": [end - 600, end], "findings": list(findings), "states": {"crash_looping_unit": state}}


def told(followed: Followed, *looks: dict[str, Any]) -> list[tuple[str, str]]:
    return [(it["event"], it["severity"]) for one in looks for it in followed.update(one, one["span"][1])]


def test_it_begins_once_and_ends_once() -> None:
    there = [look(T0 + n * EVERY, finding(T0 + n * EVERY)) for n in range(1, 5)]
    gone = [look(T0 + n * EVERY, state="clear") for n in range(5, 20)]
    assert told(Followed(), *there, *gone) == [("began", "warning"), ("ended", "warning")]


@pytest.mark.parametrize("hold", [HOLD, 60.0, 900.0])
def test_its_end_is_when_it_was_last_there_and_is_told_after_a_hold(hold: float) -> None:
    followed = Followed(hold=hold)
    followed.update(look(T0 + 60, finding(T0 + 60)), T0 + 60)
    ends = []
    for n in range(2, 20):
        ends += followed.update(look(T0 + n * EVERY, state="clear"), T0 + n * EVERY)
    (end,) = ends
    assert (end["began"], end["ended"]) == (T0, T0 + 60)
    # Of each look half the hold counts at most: a short one takes two looks.
    assert hold <= end["at"] - end["ended"] <= max(hold, 2 * EVERY) + EVERY


def test_the_time_from_its_end_to_the_look_that_sees_it_was_quiet() -> None:
    """Looks that are five minutes apart, and it ended in between: two of them are enough."""
    followed = Followed()
    followed.update(look(T0 + 300, finding(T0 + 300)), T0 + 300)
    assert followed.update(look(T0 + 600, finding(T0 + 400)), T0 + 600) == []
    (end,) = followed.update(look(T0 + 900, finding(T0 + 400)), T0 + 900)
    assert (end["event"], end["ended"]) == ("ended", T0 + 400)


def test_one_that_stays_in_the_window_after_it_ended_neither_goes_on_nor_begins_again() -> None:
    """A look goes ten minutes back: an OOM kill is in ten looks, and is one event."""
    looks = [look(T0 + n * EVERY, *([finding(T0 + 1)] if n < 11 else [])) for n in range(1, 20)]
    assert told(Followed(), *looks) == [("began", "warning"), ("ended", "warning")]


def test_one_that_flaps_is_one_finding() -> None:
    """There for a minute, away for three, again and again."""
    looks = []
    for n in range(1, 41):
        seen = n - n % 4  # the last minute in which it was there
        looks.append(look(T0 + n * EVERY, *([finding(T0 + seen * EVERY)] if n % 4 == 0 else [])))
    assert told(Followed(), *looks) == [("began", "warning")]


def test_one_that_comes_back_later_is_another() -> None:
    followed = Followed()
    first = told(
        followed, look(T0 + 60, finding(T0 + 60)), *(look(T0 + n * EVERY, state="clear") for n in range(2, 10))
    )
    again = look(T0 + 1200, finding(T0 + 1200, start=T0 + 1190))
    (event,) = followed.update(again, T0 + 1200)
    assert len(first) == 2 and event["event"] == "began" and event["began"] == T0 + 1190


@pytest.mark.parametrize("state", ["blind", "broken", None])
def test_what_could_not_be_looked_at_has_not_ended(state: str | None) -> None:
    followed = Followed()
    followed.update(look(T0 + 60, finding(T0 + 60)), T0 + 60)
    for n in range(2, 40):
        one = look(T0 + n * EVERY)
        one["states"] = {"crash_looping_unit": state} if state else {}
        assert not followed.update(one, T0 + n * EVERY)
    assert len(followed.open) == 1


def test_worse_at_once_milder_only_when_it_lasts() -> None:
    def grades(*found: str) -> list[tuple[str, str]]:
        looks = (look(T0 + n * EVERY, finding(T0 + n * EVERY, severity=it)) for n, it in enumerate(found, 1))
        return told(Followed(), *looks)

    assert grades("warning", "critical") == [("began", "warning"), ("changed", "critical")]
    assert grades("critical", *["warning", "critical"] * 10) == [("began", "critical")]
    assert grades("critical", *["warning"] * 4) == [("began", "critical")]
    assert grades("critical", *["warning"] * 6) == [("began", "critical"), ("changed", "warning")]


def test_a_restart_neither_forgets_nor_doubles() -> None:
    events: list[dict[str, Any]] = []
    alone = Followed()
    looks = [look(T0 + n * EVERY, *([finding(T0 + n * EVERY)] if n < 8 else []), state="clear") for n in range(1, 40)]
    for one in looks:
        restarted = Followed()
        restarted.restore(events)
        restarted.looked = alone.looked
        alone.update(one, one["span"][1])
        events += restarted.update(one, one["span"][1])
    # With a restart before every look it begins once; that it ended takes an agent that stays for the hold.
    assert [it["event"] for it in events] == ["began"]
    steady = Followed()
    steady.restore(events)
    ended = [it for n in range(40, 60) for it in steady.update(look(T0 + n * EVERY, state="clear"), T0 + n * EVERY)]
    assert [(it["event"], it["id"]) for it in ended] == [("ended", events[0]["id"])]


def test_one_that_is_over_does_not_begin_again_after_a_restart() -> None:
    first = Followed()
    events = first.update(look(T0 + 60, finding(T0 + 1)), T0 + 60)
    events += [it for n in range(2, 8) for it in first.update(look(T0 + n * 60, finding(T0 + 1)), T0 + n * 60)]
    assert [it["event"] for it in events] == ["began", "ended"]
    second = Followed()
    second.restore(events)
    assert not second.update(look(T0 + 500, finding(T0 + 1)), T0 + 500)


@pytest.mark.parametrize("one_and_other", ["process:trainer[31] process:trainer[997]", "cpu:3 cpu:191"])
def test_a_process_that_starts_anew_and_a_core_that_changes_are_the_same(one_and_other: str) -> None:
    assert len({identity("starved_thread", it) for it in one_and_other.split()}) == 1


def test_others_are_not_the_same() -> None:
    others = ("process:trainer[31]", "process:loader[31]", "cpu:3", "unit:a.service", "unit:b.service")
    cgroups = ("cgroup:/a/cpu:3", "cgroup:/a/cpu:4")
    assert len({identity("starved_thread", it) for it in (*others, *cgroups)}) == 7


def test_several_of_one_identity_are_one_with_the_worst_severity() -> None:
    here = [
        finding(T0 + 50, severity="critical", subject="cpu:1", says="one"),
        finding(T0 + 60, severity="warning", subject="cpu:2", says="two"),
    ]
    (event,) = Followed().update(look(T0 + 60, *here), T0 + 60)
    assert (event["severity"], event["says"], event["last"]) == ("critical", "two", T0 + 60)


def test_a_clock_that_is_set_forward_ends_nothing_and_one_set_back_neither_ends_nor_hides() -> None:
    followed = Followed()
    followed.update(look(T0 + 60, finding(T0 + 60)), T0 + 60)
    assert not followed.update(look(T0 + 7200, state="clear"), T0 + 7200)
    assert not followed.update(look(T0 + 7260, finding(T0 + 7260)), T0 + 7260)
    back = [look(T0 + n * EVERY, finding(T0 + n * EVERY)) for n in range(1, 30)]
    assert told(followed, *back) == []
    gone = [look(T0 + n * EVERY, state="clear") for n in range(30, 40)]
    assert told(followed, *gone) == [("ended", "warning")]
