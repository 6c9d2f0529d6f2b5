"""What the agent says, in both forms; a reader that stalls or leaves stops nothing."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from tests.waiting import HANGS

from zombiescope.agent.output import in_words

TALKS = """
import sys
from zombiescope.agent.output import Output
out = Output("json")
for number in range(int(sys.argv[1])):
    out.event({"n": number, "text": "x" * 20_000})
    out.log(f"{number} \\x1b[31m\\n" + "y" * 5000, "warning")
sys.exit(out.dropped)
"""
EVENT = {
    "event": "began",
    "id": "5be1c0f2a7d94c11",
    "at": 1_794_000_000.0,
    "began": 1_793_999_000.0,
    "ended": 1_793_999_600.0,
    "sign": "crash_looping_unit",
    "subject": "unit:ecs.service",
    "severity": "warning",
    "says": "keeps crashing",
    "harm": {"says": "costs 31 crashes"},
}


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, "BEGAN warning crash_looping_unit unit:ecs.service: keeps crashing; costs 31 crashes [5be1c0f2a7d94c11]"),
        (
            {"event": "changed", "severity": "critical", "before": "warning"},
            "CHANGED critical crash_looping_unit unit:ecs.service (was warning): keeps crashing; costs 31 crashes "
            "[5be1c0f2a7d94c11]",
        ),
        ({"event": "ended"}, "ENDED warning crash_looping_unit unit:ecs.service: lasted 10 min [5be1c0f2a7d94c11]"),
    ],
)
def test_in_words(more: dict[str, str], says: str) -> None:
    assert in_words(EVENT | more) == f"2026-11-06T21:20:00Z {says}"


def test_lines_are_whole() -> None:
    done = subprocess.run([sys.executable, "-c", TALKS, "20"], capture_output=True, text=True)
    assert done.returncode == 0
    assert [json.loads(line)["n"] for line in done.stdout.splitlines()] == list(range(20))
    logged = [json.loads(line) for line in done.stderr.splitlines()]
    assert len(logged) == 20 and all("\x1b" not in it["says"] and len(it["says"]) <= 1001 for it in logged)


@pytest.mark.beside
def test_nobody_reads() -> None:
    """Both pipes are full after a few lines: each further line is dropped after a second at most."""
    with subprocess.Popen([sys.executable, "-c", TALKS, "6"], stdout=subprocess.PIPE, stderr=subprocess.PIPE) as talker:
        assert 1 <= talker.wait(HANGS) <= 12


def test_the_reader_has_left() -> None:
    command = f"{sys.executable} -c '{TALKS}' 50 2>&1 | head -c 10 >/dev/null; exit ${{PIPESTATUS[0]}}"
    assert subprocess.run(["bash", "-c", command]).returncode == 0
