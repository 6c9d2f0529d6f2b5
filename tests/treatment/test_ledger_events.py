"""What each event of the ledger must hold: every field of every kind, as it is written and in wrong shapes."""

from __future__ import annotations

import copy
import json
from typing import Any

import pytest

from zombiescope.treatment.ledger_events import EVENTS, why_not_ours

STEP = {"says": "", "argv": ["true"], "stdin": "", "undo": [], "unit": "", "keeps": [], "risk": ""}
CURES = {"sign": "z", "subject": "unit:x", "says": ""}
PLAN: dict[str, Any] = {"name": "x", "cures": CURES, "risk": "safe", "proof": ["z"], "steps": [STEP, STEP]}
FILES: dict[str, Any] = {
    "/absent": {"kind": "absent"},
    "/link": {"kind": "link", "to": "x"},
    "/folder": {"kind": "folder", "mode": 0o7777, "uid": 0, "gid": (1 << 32) - 1},
    "/file": {"kind": "file", "content": "", "mode": 0, "uid": 0, "gid": 0},
    "/proc/x": {"kind": "setting", "content": ""},
}
WHOLE: dict[str, dict[str, Any]] = {
    "planned": {"plan": PLAN, "who": {"user": "root"}},
    "begins": {"step": 1, "before": {"files": FILES, "runs": "", "disables": ["a.service"]}},
    "done": {"step": 0, "after": {"files": FILES}},
    "failed": {"step": 0, "why": ""},
    "undoing": {"step": 0, "commands": ["x"]},
    "step undone": {"step": 0},
    "abandoned": {"why": ""},
    "proving": {
        "folder": "/x/proofs/20260101T000000Z-1",
        "until": 1.5,
        "window": 60,
        "hz": 99,
        "settings": ["a.B=1"],
        "cured": [["z", "unit:x"]],
        "signs": ["z"],
        "fixes": ["1", "999999999"],
    },
    "proved": {"state": "proved", "checks": [{"name": "", "state": "held", "says": ""}]},
}
HEAD = {"fix": "1", "at": 1.0}


def plan_of(event: str) -> dict[str, Any] | None:
    return None if event == "planned" else PLAN


def whole(event: str) -> dict[str, Any]:
    return copy.deepcopy(HEAD | {"event": event} | WHOLE.get(event, {}))


@pytest.mark.parametrize("event", EVENTS)
def test_what_is_whole_is_ours_and_what_more_it_says_is_let_be(event: str) -> None:
    assert why_not_ours(whole(event), plan_of(event)) == ""
    assert why_not_ours(whole(event) | {"more": 1}, plan_of(event)) == ""
    assert json.loads(json.dumps(whole(event))) == whole(event), "as it is in the file"


def places(value: Any, way: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """The way to everything in it."""
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [*([way] if way else []), *(found for key, one in inside for found in places(one, (*way, key)))]


def changed(event: str, way: tuple[Any, ...], wrong: Any) -> dict[str, Any]:
    made: Any = whole(event)
    inside = made
    for key in way[:-1]:
        inside = inside[key]
    inside[way[-1]] = wrong
    return dict(made)


@pytest.mark.parametrize("event", EVENTS)
def test_any_part_of_another_type_is_refused(event: str) -> None:
    for way in places(whole(event)):
        for wrong in (True, b"", ("x",), object()):
            assert why_not_ours(changed(event, way, wrong), plan_of(event)), (way, wrong)


@pytest.mark.parametrize("event", EVENTS)
def test_any_part_that_is_missing_is_refused(event: str) -> None:
    for way in places(whole(event)):
        made: Any = whole(event)
        inside = made
        for key in way[:-1]:
            inside = inside[key]
        optional = isinstance(inside, list) or "/" in str(way[-1])  # entries, and files: there may be fewer
        del inside[way[-1]]
        fewer = optional and way[-2:-1] != (0,)  # but what was cured is always two words
        assert (why_not_ours(made, plan_of(event)) == "") is fewer, way


@pytest.mark.parametrize(
    ("event", "way", "wrong"),
    [
        ("begins", ("at",), float("nan")),
        ("begins", ("at",), float("inf")),
        ("begins", ("at",), 1e15),
        ("begins", ("fix",), "1234567890"),
        ("begins", ("fix",), "²"),
        ("begins", ("fix",), ""),
        ("begins", ("fix",), "-1"),
        ("begins", ("step",), -1),
        ("begins", ("step",), 2),
        ("begins", ("step",), 0.0),
        ("begins", ("before", "disables"), [1]),
        ("begins", ("before", "files", "/link", "to"), ""),
        ("begins", ("before", "files", "/link", "to"), "a\0b"),
        ("begins", ("before", "files", "/link", "more"), ""),
        ("begins", ("before", "files", "/file", "mode"), 0o10000),
        ("begins", ("before", "files", "/file", "mode"), -1),
        ("begins", ("before", "files", "/file", "uid"), 1 << 32),
        ("begins", ("before", "files", "/file", "kind"), "other"),
        ("begins", ("event",), "begin"),
        ("proving", ("hz",), -1),
        ("proving", ("hz",), 10_000),
        ("proving", ("folder",), "/x/proofs/20260101T000000Z-1/.."),
        ("proving", ("folder",), "/etc"),
        ("proving", ("folder",), "20260101T000000Z-1\n"),
        ("proving", ("cured",), [["z"]]),
        ("proving", ("cured",), [["z", "x", "y"]]),
        ("proving", ("fixes",), ["x"]),
    ],
)
def test_values_that_we_never_write(event: str, way: tuple[Any, ...], wrong: Any) -> None:
    assert why_not_ours(changed(event, way, wrong), plan_of(event))


def test_values_that_we_may_write() -> None:
    for event, way, right in (
        ("begins", ("before", "disables"), None),
        ("begins", ("step",), 0),
        ("begins", ("at",), -5),
        ("proving", ("hz",), 0),
        ("proving", ("folder",), "20260101T000000Z-1"),
    ):
        assert why_not_ours(changed(event, way, right), plan_of(event)) == ""


def test_which_events_come_first_and_what_is_said() -> None:
    assert why_not_ours(whole("planned"), PLAN) == "its fix was planned before"
    assert why_not_ours(whole("finished"), None) == "its fix was not planned before"
    assert why_not_ours(whole("begins") | {"step": 7}, PLAN) == "its fix has 2 steps, and it is about step 8"
    assert why_not_ours([], None) == why_not_ours("x", PLAN) == "it is not an event of a fix"
    assert why_not_ours(whole("failed") | {"event": "run"}, PLAN) == "'run' is no event of a fix"
    assert why_not_ours(whole("failed") | {"why": 1}, PLAN).startswith("the why of its event 'failed' is not what")
