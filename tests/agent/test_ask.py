"""`agent --ask`: one line and an exit code, of an agent that answers, of one that is wrong, and of none."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pytest
from tests.agent.running import running
from tests.conftest import PROJECT, Run
from tests.meanwhile import meanwhile

pytestmark = pytest.mark.e2e


def finding(severity: str = "warning", subject: str = "unit:ecs.service") -> dict[str, str]:
    return {"sign": "crash_looping_unit", "subject": subject, "severity": severity}


class Server(HTTPServer):
    address_family = socket.AF_UNIX

    def server_bind(self) -> None:
        self.socket.bind(self.server_address)

    def get_request(self) -> tuple[socket.socket, tuple[str, int]]:
        return self.socket.accept()[0], ("", 0)


@contextmanager
def answering(folder: Path, findings: Any, troubles: list[str] | None = None, reboot: Any = None) -> Iterator[str]:
    """A server that says what an agent would, in a folder of its own."""
    pages = {"/healthz": {"troubles": troubles or []}, "/findings": findings, "/reboot": reboot}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503 if self.path == "/healthz" and troubles else 200)
            self.end_headers()
            self.wfile.write(json.dumps(pages[self.path]).encode())

        def log_message(self, *_: object) -> None:
            """Nothing."""

    (folder / "agent").mkdir(exist_ok=True)
    path = folder / "agent" / "socket"
    path.unlink(missing_ok=True)
    with Server(str(path), Handler) as server, meanwhile(lambda over: _serve(server, over)):  # type: ignore[arg-type]
        yield str(folder)


def _serve(server: HTTPServer, over: threading.Event) -> None:
    server.timeout = 0.1
    while not over.is_set():
        server.handle_request()


@pytest.mark.parametrize(
    ("findings", "troubles", "codes", "says"),
    [
        ([], [], (0, 0, 0), "OK nothing starves"),
        ([finding()], [], (1, 1, 1), "WARNING crash_looping_unit unit:ecs.service"),
        (
            [finding(), finding("critical", "nic:eth0")],
            [],
            (1, 1, 2),
            "CRITICAL crash_looping_unit nic:eth0 and 1 more",
        ),
        ([finding("critical")], ["no look"], (1, 1, 2), "CRITICAL crash_looping_unit unit:ecs.service"),
        ([], ["the recorder does not run"], (3, 2, 3), "UNKNOWN the recorder does not run"),
        ([{"sign": 1}], [], (3, 2, 3), "UNKNOWN the agent in "),
        ("garbage", [], (3, 2, 3), "UNKNOWN the agent in "),
    ],
)
def test_codes(
    zombiescope: Run, tmp_path: Path, findings: Any, troubles: list[str], codes: tuple[int, ...], says: str
) -> None:
    with answering(tmp_path, findings, troubles) as at:
        for style, code in zip(("ci", "npd", "nagios"), codes, strict=True):
            done = zombiescope("agent", "--ask", "--dir", at, "--exit-style", style, expect=code)
            assert done.stdout.startswith(says) and len(done.stdout) <= 81 and done.stdout.count("\n") == 1


def test_a_hostile_subject_is_one_short_line(zombiescope: Run, tmp_path: Path) -> None:
    with answering(tmp_path, [finding(subject="unit:" + "x\x1b[31m\n" * 50), finding()]) as at:
        line = zombiescope("agent", "--ask", "--dir", at, "--exit-style", "npd", expect=1).stdout
    assert len(line) <= 81 and line.count("\n") == 1 and "\x1b" not in line and line.endswith(" and 1 more\n")


def test_nobody_there(zombiescope: Run, tmp_path: Path) -> None:
    done = zombiescope("agent", "--ask", "--dir", str(tmp_path), "--exit-style", "npd", expect=2)
    assert done.stdout.startswith("UNKNOWN no agent runs in /") and not done.stderr
    assert zombiescope("agent", "--get", "/events", "--dir", str(tmp_path), expect=3).stderr.startswith("no agent runs")


def test_the_real_agent(zombiescope: Run, tmp_path: Path) -> None:
    """By its socket, whatever its port wants, and though it has none."""
    with running(tmp_path / "rec", listen="") as agent:
        agent.until(lambda: agent.said("records into"))
        here = ("--dir", str(tmp_path / "rec"))
        said = zombiescope("agent", "--ask", *here, expect=3).stdout
        assert said == "UNKNOWN not looked yet\n", "what nobody has looked at is not OK"
        assert zombiescope("agent", "--get", "/events", *here, expect=0).stdout == "[]\n"
        assert "not looked yet" in zombiescope("agent", "--get", "/healthz", *here, expect=0).stdout
        assert zombiescope("agent", "--get", "/case", *here, expect=3).stderr == "not looked yet\n"
        for wrong in ("/nowhere", "events", "/a b", "/x\r\nHost: y"):
            assert len(zombiescope("agent", "--get", wrong, *here, expect=2).stderr.splitlines()) == 1


def test_the_shipped_plugin_is_within_its_own_limits() -> None:
    shipped = json.loads((PROJECT / "deploy/node-problem-detector/zombiescope.json").read_text())
    (rule,), (condition,) = shipped["rules"], shipped["conditions"]
    assert rule["condition"] == condition["type"] and rule["args"] == ["agent", "--ask", "--exit-style", "npd"]
    assert shipped["pluginConfig"]["max_output_length"] == 80


@pytest.mark.parametrize(
    ("said", "code"),
    [
        ({"needed": True, "because": ["soft_lockup cpu:3"]}, 0),
        ({"needed": False, "because": []}, 1),
        ({"needed": True, "because": []}, 1),
        ({"needed": "yes", "because": ["x"]}, 1),
        ([], 1),
        ({}, 1),
    ],
)
def test_kured_reboots_only_for_a_clear_yes(zombiescope: Run, tmp_path: Path, said: Any, code: int) -> None:
    with answering(tmp_path, [], reboot=said) as address:
        done = zombiescope("agent", "--ask-reboot", "--dir", address, expect=code)
    assert len(done.stdout.splitlines()) == 1


def test_kured_reboots_nothing_when_no_agent_answers(zombiescope: Run, tmp_path: Path) -> None:
    done = zombiescope("agent", "--ask-reboot", "--dir", str(tmp_path), expect=1)
    assert "not known" in done.stdout


def test_a_real_agent_needs_no_reboot(zombiescope: Run, tmp_path: Path) -> None:
    with running(tmp_path) as agent:
        agent.until(lambda: agent.said("records into"))
        done = zombiescope("agent", "--ask-reboot", "--dir", str(tmp_path), expect=1)
    assert done.stdout == "no reboot is needed\n"
