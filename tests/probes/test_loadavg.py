"""loadavg: three averages, and nothing else taken for them."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import damage_in, machine, told

from zombiescope.probes import loadavg
from zombiescope.probes.loadavg import parse


def test_parse() -> None:
    assert parse("96.31 80.02 44.50 97/4211 1048576\n") == (96.31, 80.02, 44.5)


@pytest.mark.parametrize(
    "text", ["", "0.15 0.07 0.02", "a b c 2/78 2028", "0.15 0.07 0.02 2/78 2028 7", "nan 0 0 1/2 3"]
)
def test_damage(text: str) -> None:
    assert damage_in(parse, text) == ("/proc/loadavg", 1)


def test_read(tmp_path: Path) -> None:
    seen = told(loadavg, machine(tmp_path, {"proc/loadavg": "0.15 0.07 0.02 2/78 2028\n"}))
    assert seen == {("load1", "node"): 0.15, ("load5", "node"): 0.07, ("load15", "node"): 0.02}
