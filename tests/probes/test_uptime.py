"""uptime: seconds since boot, never a number that is none."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import damage_in, machine, told

from zombiescope.probes import uptime
from zombiescope.probes.uptime import parse


def test_parse() -> None:
    assert parse("350735.47 234388.90\n") == 350735.47


@pytest.mark.parametrize("text", ["", "350735.47", "up 3 days", "a b", "nan 1", "inf 1"])
def test_damage(text: str) -> None:
    assert damage_in(parse, text) == ("/proc/uptime", 1)


def test_read(tmp_path: Path) -> None:
    assert told(uptime, machine(tmp_path, {"proc/uptime": "12.5 3.0\n"})) == {("uptime_seconds", "node"): 12.5}
