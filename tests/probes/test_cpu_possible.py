"""cpu_possible: lists of cores as the kernel writes them, and none that would fill our memory."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import damage_in, machine, told

from zombiescope.probes import cpu_possible
from zombiescope.probes.cpu_possible import parse


@pytest.mark.parametrize(
    ("text", "cores"), [("0\n", 1), ("0-3\n", 4), ("0,2-3\n", 3), ("0-95\n", 96), ("0-65535\n", 65_536)]
)
def test_parse(text: str, cores: int) -> None:
    assert parse(text) == cores


@pytest.mark.parametrize(
    "text", ["", "\n", "0-", "-5", "0-65536", "0-9999999999", "3-1", "0,,1", "all", "0-3-5", "0--3", "0-65535,0-65535"]
)
def test_damage(text: str) -> None:
    assert damage_in(parse, text) == ("/sys/devices/system/cpu/possible", 1)


def test_read(tmp_path: Path) -> None:
    host = machine(tmp_path, {"sys/devices/system/cpu/possible": "0-127\n"})
    assert told(cpu_possible, host) == {("cpus_possible", "node"): 128}
    assert next(cpu_possible.read(host)).text == "0-127"
