"""`agent --ask`: one line and an exit code, of an agent that answers, of one that is wrong, and of none."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import pytest
from tests.agent.running import running
from tests.conftest import PROJECT, Run
from tests.servers import served

pytestmark = pytest.mark.e2e


def finding(severity: str = "warning", subject: str = "unit:ecs.service") -> dict[str, str]:
    return {"sign": "crash_looping_unit", "subject": subject, "severity": severity}


@contextmanager
def answering(findings: Any, troubles: list[str] | None = None, reboot: Any = None) -> Iterator[str]:
    """A server that says what an agent would; its address."""
    pages = {"/healthz": {"troubles": troubles or []}, "/findings": findings, "/reboot": reboot}

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(503 if self.path == "/healthz" and troubles else 200)
            self.end_headers()
            self.wfile.write(json.dumps(pages[self.path]).encode())

    with served(Handler) as address:
        yield address


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
        ([{"sign": 1}], [], (3, 2, 3), "UNKNOWN the agent at "),
        ("garbage", [], (3, 2, 3), "UNKNOWN the agent at "),
    ],
)
def test_codes(zombiescope: Run, findings: Any, troubles: list[str], codes: tuple[int, ...], says: str) -> None:
    with answering(findings, troubles) as at:
        for style, code in zip(("ci", "npd", "nagios"), codes, strict=True):
            done = zombiescope("agent", "--ask", "--listen", at, "--exit-style", style, expect=code)
            assert done.stdout.startswith(says) and len(done.stdout) <= 81 and done.stdout.count("\n") == 1


def test_a_hostile_subject_is_one_short_line(zombiescope: Run) -> None:
    with answering([finding(subject="unit:" + "x\x1b[31m\n" * 50), finding()]) as at:
        line = zombiescope("agent", "--ask", "--listen", at, "--exit-style", "npd", expect=1).stdout
    assert len(line) <= 81 and line.count("\n") == 1 and "\x1b" not in line and line.endswith(" and 1 more\n")


def test_nobody_there(zombiescope: Run) -> None:
    done = zombiescope("agent", "--ask", "--listen", "127.0.0.1:1", "--exit-style", "npd", expect=2)
    assert done.stdout.startswith("UNKNOWN the agent at 127.0.0.1:1 does not answer") and not done.stderr


def test_the_real_agent_with_its_token(zombiescope: Run, tmp_path: Path) -> None:
    secret = tmp_path / "token"
    secret.write_text("correct-horse-battery")
    secret.chmod(0o600)
    with running(tmp_path / "rec", "--token-file", str(secret)) as agent:
        at = ("agent", "--ask", "--listen", f"127.0.0.1:{agent.port}")
        said = zombiescope(*at, "--token-file", str(secret), expect=3).stdout
        assert said == "UNKNOWN not looked yet\n", "what nobody has looked at is not OK"
        assert "HTTP 401" in zombiescope(*at, expect=3).stdout


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
def test_kured_reboots_only_for_a_clear_yes(zombiescope: Run, said: Any, code: int) -> None:
    with answering([], reboot=said) as address:
        done = zombiescope("agent", "--ask-reboot", "--listen", address, expect=code)
    assert len(done.stdout.splitlines()) == 1


def test_kured_reboots_nothing_when_no_agent_answers(zombiescope: Run) -> None:
    done = zombiescope("agent", "--ask-reboot", "--listen", "127.0.0.1:1", expect=1)
    assert "not known" in done.stdout


def test_a_real_agent_needs_no_reboot(zombiescope: Run, tmp_path: Path) -> None:
    with running(tmp_path) as agent:
        done = zombiescope("agent", "--ask-reboot", "--listen", f"127.0.0.1:{agent.port}", expect=1)
    assert done.stdout == "no reboot is needed\n"
