"""Events to a webhook and to Alertmanager: real servers that refuse, hang and come back."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import pytest
from tests.waiting import until

from zombiescope.agent import posting
from zombiescope.agent.posting import WAITING, Alerts, Poster


class Receiver:
    """A server; `answers` are the codes of its next answers, then 200."""

    def __init__(self, *answers: int) -> None:
        self.answers, self.got, self.headers = list(answers), list[tuple[str, Any]](), list[dict[str, str]]()
        outer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                code = outer.answers.pop(0) if outer.answers else 200
                if code < 300:
                    outer.got.append((self.path, json.loads(body)))
                    outer.headers.append(dict(self.headers))
                self.send_response(code)
                self.send_header("Location", "http://127.0.0.1:1/")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = HTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"

    def until(self, count: int) -> list[tuple[str, Any]]:
        until(lambda: len(self.got) >= count)
        return self.got


@contextmanager
def receiver(*answers: int) -> Iterator[Receiver]:
    it = Receiver(*answers)
    thread = threading.Thread(target=it.server.serve_forever)
    thread.start()
    try:
        yield it
    finally:
        it.server.shutdown()
        thread.join()
        it.server.server_close()


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(posting, "FIRST_PAUSE", 0.02)
    monkeypatch.setattr(posting, "LONGEST_PAUSE", 0.2)


def event(kind: str = "began", **more: Any) -> dict[str, Any]:
    return {
        "event": kind,
        "id": "0123456789abcdef",
        "at": time.time(),
        "sign": "crash_looping_unit",
        "subject": "unit:ecs.service",
        "severity": "warning",
        "says": "keeps crashing",
        "began": time.time() - 60,
        "last": time.time(),
        "harm": {"says": "costs nothing yet"},
        "chain": [{"sign": "crash_looping_unit", "subject": "unit:ecs.service", "says": ""}],
    } | more


def test_each_event_arrives_once_and_in_order_though_the_server_fails_at_first() -> None:
    taken: list[int] = []
    with receiver(503, 500, 429, 301) as server:
        poster = Poster(f"{server.url}/hook?a=1", "secret-word", taken.append)
        for number in range(1, 6):
            poster.put(json.dumps({"n": number}).encode(), number)
        got = server.until(5)
        poster.close(5)
    assert got == [("/hook?a=1", {"n": number}) for number in range(1, 6)]
    assert taken == [1, 2, 3, 4, 5] and poster.lost == 0
    assert server.headers[0]["Authorization"] == "Bearer secret-word"


def test_what_the_server_calls_wrong_is_given_up_and_counted() -> None:
    with receiver(400) as server:
        poster = Poster(server.url)
        poster.put(b"1")
        poster.put(b"2")
        assert server.until(1) == [("/", 2)]
        poster.close(5)
    assert poster.lost == 1


def test_a_server_that_is_away_costs_bounded_memory_and_no_time() -> None:
    poster = Poster("http://127.0.0.1:1/")
    began = time.thread_time()
    for number in range(WAITING * 4):
        poster.put(b"x", number)
    assert time.thread_time() - began < 1 and poster.lost == WAITING * 3
    poster.close(0.1)
    assert "127.0.0.1:1" in poster.news() and not poster.news()


def test_alertmanager_hears_what_goes_on_again_and_again_and_its_end() -> None:
    with receiver() as server:
        alerts = Alerts(server.url, "node-a")
        began = event()
        alerts.heard(began)
        alerts.repeat([began], 100.0)
        ((path, (first,)),) = server.until(1)
        alerts.repeat([began], 130.0)  # too early
        alerts.repeat([began], 161.0)
        alerts.heard(event("ended", ended=began["last"]))
        server.until(2)
        alerts.repeat([], 162.0)
        last = server.until(3)[-1][1]
        alerts.poster.close(5)
    assert path == "/api/v2/alerts"
    assert first["labels"]["subject"] == "unit:ecs.service" and first["labels"]["instance"] == "node-a"
    assert first["endsAt"] > first["startsAt"]
    assert last[0]["labels"] == first["labels"] and last[0]["endsAt"] < first["endsAt"]


def test_another_severity_resolves_the_alert_before_it() -> None:
    with receiver() as server:
        alerts = Alerts(server.url, "node-a")
        changed = event("changed", severity="critical", before="warning")
        alerts.heard(changed)
        alerts.repeat([changed], 1.0)
        ((_, both),) = server.until(1)
        alerts.poster.close(5)
    ends = {it["labels"]["severity"]: it["endsAt"] for it in both}
    assert ends["warning"] < ends["critical"]
