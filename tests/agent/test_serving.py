"""The server under clients that are slow, many, hostile or wrong: it answers, and keeps its bounds."""

from __future__ import annotations

import json
import os
import random
import re
import socket
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest
from tests.agent.running import Agent, raw, running

from zombiescope.agent.serving import MOST_HEAD, PLACES

pytestmark = [pytest.mark.beside, pytest.mark.e2e]
GARBAGE = int(os.environ.get("ZOMBIESCOPE_GARBAGE", "2000"))
SECONDS = float(os.environ.get("ZOMBIESCOPE_SCRAPING", "3"))
TOKEN = "correct-horse-battery"
GET = b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n"


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    with running(tmp_path_factory.mktemp("rec"), "--open-loopback") as it:
        it.until(lambda: it.said("records into"))
        yield it


def status(answer: bytes) -> int:
    found = re.match(rb"HTTP/1\.1 (\d{3}) [A-Za-z ]+\r\n", answer)
    assert found, answer[:80]
    head, _, body = answer.partition(b"\r\n\r\n")
    length = re.search(rb"Content-Length: (\d+)", head)
    assert length and int(length[1]) in (len(body), len(body) or int(length[1]))
    return int(found[1])


def resident(agent: Agent) -> int:
    text = Path(f"/proc/{agent.process.pid}/status").read_text()
    return int(re.search(r"VmRSS:\s+(\d+)", text)[1]) * 1024  # type: ignore[index]


def descriptors(agent: Agent) -> int:
    return len(os.listdir(f"/proc/{agent.process.pid}/fd"))


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (GET, 200),
        (GET.replace(b"GET", b"HEAD"), 200),
        (GET.replace(b"1.1", b"1.0"), 200),
        (b"GET /metrics HTTP/1.0\r\n\r\n", 200),
        (GET.replace(b"/metrics", b"/"), 200),
        (GET.replace(b"/metrics", b"/metrics?x=../../etc/passwd"), 200),
        (GET.replace(b"/metrics", b"/../../etc/passwd"), 404),
        (GET.replace(b"/metrics", b"/%2e%2e/etc/passwd"), 404),
        (GET.replace(b"/metrics", b"http://localhost/metrics"), 404),
        (GET.replace(b"/metrics", b"/page/../../etc/passwd"), 404),
        (GET.replace(b"/metrics", b"/page"), 307),
        (GET.replace(b"/metrics", b"/page/bundle?path=/etc/passwd"), 400),
        (GET.replace(b"/metrics", b"/page/bundle?from=1&to=99999999"), 400),
        (GET.replace(b"/metrics", b"/debug/pprof/profile?seconds=nan"), 400),
        (GET.replace(b"/metrics", b"/debug/pprof/profile?seconds=1&seconds=2"), 400),
        (GET.replace(b"/metrics", b"/remedies"), 200),
        (GET.replace(b"/metrics", b"/reboot"), 200),
        (GET.replace(b"GET", b"POST"), 405),
        (GET.replace(b"GET", b"BREW"), 405),
        (GET.replace(b"HTTP/1.1", b"HTTP/9.9"), 400),
        (GET.replace(b"localhost", b"evil.example"), 403),
        (GET.replace(b"localhost", b"127.0.0.1:9479"), 200),
        (GET.replace(b"localhost", b"[::1]:9479"), 200),
        (GET.replace(b"localhost", b"127.0.0.1.evil.example"), 403),
        (GET.replace(b"Host: localhost", b"Host: localhost\r\nHost: evil"), 400),
        (GET.replace(b"Host: localhost", b"Host localhost"), 400),
        (GET.replace(b"Host: localhost", b"Host: localhost\r\nA b: c"), 400),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
        (b"get / HTTP/1.1\r\n\r\n", 400),
        (b"GET " + b"/" * MOST_HEAD + b" HTTP/1.1\r\n\r\n", 431),
        (b"GET / HTTP/1.1\r\n" + b"a: b\r\n" * MOST_HEAD, 431),
    ],
)
def test_one_request(agent: Agent, request_: bytes, code: int) -> None:
    assert status(raw(agent.port, request_)) == code


def test_garbage(agent: Agent) -> None:
    """Mutated requests: each gets an answer or is hung up on, and the next good one is served."""
    chance = random.Random(int(os.environ.get("ZOMBIESCOPE_SEED", "16")))
    before, port = descriptors(agent), agent.port
    for number in range(GARBAGE):
        content = bytearray(
            GET if number % 2 else GET.replace(b"/metrics", b"/page/bundle?from=1794000000&to=1794000060")
        )
        for _ in range(chance.randint(1, 8)):
            place = chance.randrange(len(content))
            content[place : place + chance.randint(0, 3)] = chance.randbytes(chance.randint(0, 4))
        with socket.create_connection(("127.0.0.1", port), timeout=20) as client:
            client.sendall(content)
            client.shutdown(socket.SHUT_WR)
            answer = b""
            while piece := client.recv(65536):
                answer += piece
        # 413, 429, 503: what was understood, and cannot be had now.
        assert not answer or status(answer) in (200, 307, 400, 403, 404, 405, 413, 429, 431, 503), bytes(content)
        if number % 100 == 0:
            assert status(raw(port, GET)) == 200
    agent.until(lambda: descriptors(agent) <= before + 1)


def test_slow_clients_do_not_keep_a_scraper_out(agent: Agent) -> None:
    before, memory = descriptors(agent), resident(agent)
    slow, times = [], []
    for number in range(200):
        client = socket.create_connection(("127.0.0.1", agent.port), timeout=20)
        client.sendall(b"GET / HT"[: number % 8 + 1])
        slow.append(client)
        if number % 20 == 19:
            began = time.monotonic()
            assert status(raw(agent.port, GET)) == 200
            times.append(time.monotonic() - began)
    assert sorted(times)[len(times) // 2] < 2, "a scrape that waits for slow ones takes as long as these are given"
    assert descriptors(agent) <= before + PLACES + 1
    agent.until(lambda: descriptors(agent) <= before)  # though none of them hung up
    assert resident(agent) - memory < 5_000_000
    for client in slow:
        client.close()


def test_one_that_never_takes_its_answer_is_dropped(agent: Agent) -> None:
    before = descriptors(agent)
    clients = []
    for _ in range(10):
        client = socket.create_connection(("127.0.0.1", agent.port), timeout=20)
        client.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1024)
        client.sendall(GET)
        clients.append(client)
    agent.until(lambda: descriptors(agent) <= before)
    for client in clients:
        client.close()


def test_clients_that_ask_for_much_and_leave(agent: Agent) -> None:
    """Questions are worked out one at a time; many are refused; scrapes are answered meanwhile."""
    before, memory = descriptors(agent), resident(agent)
    codes = []
    for number in range(60):
        asks = GET.replace(b"/metrics", f"/page/bundle?seconds={number + 1}".encode())
        client = socket.create_connection(("127.0.0.1", agent.port), timeout=20)
        client.sendall(asks)
        client.settimeout(0.01)
        with suppress(TimeoutError):  # it is worked out, or waits
            codes.append(status(client.recv(65536)))
        client.close()
        if number % 20 == 19:
            assert status(raw(agent.port, GET)) == 200
    assert codes.count(429) >= 20
    agent.until(lambda: descriptors(agent) <= before)
    assert resident(agent) - memory < 8_000_000
    agent.until(lambda: status(raw(agent.port, asks.replace(b"=60", b"=7"), 60)) != 429)


def test_twenty_scrapes_a_second(agent: Agent) -> None:
    raw(agent.port, GET)
    memory, deadline, times = resident(agent), time.monotonic() + SECONDS, []
    while time.monotonic() < deadline:
        began = time.monotonic()
        assert status(raw(agent.port, GET)) == 200
        times.append(time.monotonic() - began)
        time.sleep(max(0.05 - times[-1], 0))
    assert len(times) >= 8 * SECONDS and sorted(times)[len(times) // 2] < 0.1
    assert resident(agent) - memory < 4_000_000


def test_a_token_opens_all_and_metrics_need_none(tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text(TOKEN + "\n")
    secret.chmod(0o600)
    with running(tmp_path / "rec", "--token-file", str(secret), "--metrics-listen", "127.0.0.1:0") as agent:
        agent.until(lambda: agent.said(r"listens on http://[^/]*/metrics"))
        bound = agent.said(r"listens on http://[^/]*:(\d+)/metrics")
        assert bound
        open_, port = int(bound[1]), agent.port
        for path, code in ((b"/metrics", 200), (b"/case", 404), (b"/", 404), (b"/events", 404)):
            assert status(raw(open_, GET.replace(b"/metrics", path).replace(b"localhost", b"node-a"))) == code
        assert b"not looked yet" in raw(open_, GET.replace(b"/metrics", b"/healthz"))
        for word, code in ((b"", 401), (b"wrong", 401), (TOKEN.encode(), 200), (TOKEN.encode() + b"x", 401)):
            header = b"Host: node-a\r\nAuthorization: Bearer " + word
            assert status(raw(port, GET.replace(b"Host: localhost", header))) == code
            assert status(raw(port, GET.replace(b"Host: localhost", header).replace(b"/metrics", b"/events"))) == code
        assert json.loads(agent.get("/events", Authorization=f"Bearer {TOKEN}")) == []
