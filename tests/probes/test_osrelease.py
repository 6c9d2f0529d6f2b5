"""osrelease: the kernel's release, as it calls itself."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import damage_in, machine

from zombiescope.probes import osrelease
from zombiescope.probes.osrelease import parse


@pytest.mark.parametrize("text", ["", "\n", "6" * 65])
def test_damage(text: str) -> None:
    assert damage_in(parse, text) == ("/proc/sys/kernel/osrelease", 1)


def test_read(tmp_path: Path) -> None:
    (reading,) = osrelease.read(machine(tmp_path, {"proc/sys/kernel/osrelease": "5.4.0-1106-aws\n"}))
    assert (reading.what, reading.subject, reading.text) == ("kernel_release", "node", "5.4.0-1106-aws")
