"""What clients may ask for: understood or refused, never guessed; and asked of the examiner in bounds."""

from __future__ import annotations

import json
from typing import Any

import pytest

from zombiescope.agent import asking
from zombiescope.agent.asking import Asking
from zombiescope.agent.queries import BadQuery, page, profile
from zombiescope.agent.serving import Later, Response

DAY = 86400.0


def test_a_profile() -> None:
    assert profile("") == {"do": "profile", "seconds": 30.0}
    assert profile("seconds=5&cpu=3&comm=kube+let&cgroup=%2Fa%2Fb&labels=none") == {
        "do": "profile",
        "seconds": 5.0,
        "cpu": 3,
        "comm": "kube let",
        "cgroup": "/a/b",
        "labels": "none",
    }


@pytest.mark.parametrize(
    "query",
    [
        *("seconds=0", "seconds=nan", "seconds=inf", "seconds=1e9", "seconds=", "seconds=5&seconds=6", "seconds"),
        *(
            "cpu=-1",
            "cpu=x",
            "cpu=٣",
            "cpu=123456",
            "labels=some",
            "path=/etc/passwd",
            "a=b",
            "&&&=",
            "comm=" + "x" * 5000,
        ),
    ],
)
def test_a_profile_that_is_refused(query: str) -> None:
    with pytest.raises(BadQuery):
        profile(query)


def test_a_range_of_the_page() -> None:
    assert page("", DAY) == {"do": "page", "seconds": 600.0}
    assert page("from=1794000000&to=1794000060.5", DAY) == {"do": "page", "from": 1794000000.0, "to": 1794000060.5}


@pytest.mark.parametrize(
    "query",
    [
        "from=5",
        "to=5",
        "from=6&to=5",
        "from=0&to=5",
        "from=1&to=1e11",
        "from=1&to=100000",
        "seconds=86401",
        "from=a&to=b",
    ],
)
def test_a_range_that_is_refused(query: str) -> None:
    with pytest.raises(BadQuery):
        page(query, DAY)


class Examiner:
    """Takes questions, and answers when it is told to."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []
        self.up = True
        self.asking = Asking(self._take)

    def _take(self, line: bytes) -> bool:
        if self.up:
            self.asked.append(json.loads(line))
        return self.up

    def ask(self, seconds: int) -> tuple[list[Response], Response | Later]:
        heard: list[Response] = []
        found = self.asking.ask({"do": "profile", "seconds": seconds}, "application/octet-stream")
        if isinstance(found, Later):
            found.then(heard.append)
        return heard, found

    def answer(self, body: bytes = b"x", **more: Any) -> None:
        self.asking.heard({"id": self.asked[-1]["id"], "cpu_seconds": 0.5, **more}, body)


def test_one_at_a_time_and_equal_questions_together() -> None:
    examiner = Examiner()
    first, second, same = examiner.ask(1), examiner.ask(2), examiner.ask(1)
    assert [it["seconds"] for it in examiner.asked] == [1]
    examiner.answer(b"one")
    assert first[0][0].body == b"one" and same[0][0].body == b"one" and not second[0]
    assert [it["seconds"] for it in examiner.asked] == [1, 2]
    examiner.answer(b"two")
    assert second[0][0].body == b"two" and examiner.asking.cpu_seconds == 1.0
    again = examiner.ask(2)[1]
    assert isinstance(again, Response) and again.body == b"two"  # asked a moment ago


def test_too_many_are_refused_and_an_error_is_told() -> None:
    examiner = Examiner()
    found = [examiner.ask(seconds)[1] for seconds in range(1, 30)]
    refused = [it for it in found if isinstance(it, Response)]
    assert len(found) - len(refused) <= asking.AT_ONCE and {it.status for it in refused} == {429}
    waiting = examiner.ask(1)[0]
    examiner.answer(error="choose a shorter range", asked=True)
    assert (waiting[0].status, waiting[0].body) == (413, b"choose a shorter range\n")


def test_an_examiner_that_ends_loses_one_question_only() -> None:
    examiner = Examiner()
    first, second = examiner.ask(1), examiner.ask(2)
    examiner.up = False
    examiner.asking.gone("the examiner ended")
    assert first[0][0].status == 503 and not second[0]
    examiner.up = True
    examiner.asking.tick(0.0)
    examiner.answer(b"two")
    assert second[0][0].body == b"two"
    examiner.asking.heard({"id": 1, "error": "late"}, b"")  # of the one before: ignored
