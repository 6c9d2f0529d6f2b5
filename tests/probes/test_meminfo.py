"""meminfo: kernel memory in bytes; a line that an old kernel lacks is not seen, not nought."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import MEMINFO, damage_in, machine, told, unseen

from zombiescope.probes import meminfo
from zombiescope.probes.meminfo import GIVES, parse


def test_units() -> None:
    found = parse(MEMINFO)
    assert found["Slab"] == (398932 * 1024, "Slab:             398932 kB")
    assert found["HugePages_Total"][0] == 0
    assert parse("MemTotal: 3 kB\nActive(anon):    2020004 kB\n")["Active(anon)"][0] == 2020004 * 1024


@pytest.mark.parametrize(
    ("text", "line"), [("", 1), ("MemFree: 3 kB\n", 1), ("MemTotal: 3 kB\nSlab:\n", 2), ("MemTotal: lots\n", 1)]
)
def test_damage(text: str, line: int) -> None:
    assert damage_in(parse, text) == ("/proc/meminfo", line)


def test_read(tmp_path: Path) -> None:
    seen = told(meminfo, machine(tmp_path, {"proc/meminfo": MEMINFO}))
    assert seen["memory_percpu_bytes", "node"] == 137216 * 1024
    assert {what for what, _ in seen} == set(GIVES) - {"memory_unaccounted_bytes"}  # this copy lacks most lines


def test_an_old_kernel(tmp_path: Path) -> None:
    """`MemAvailable` and `Percpu` came late."""
    old = "".join(row for row in MEMINFO.splitlines(True) if not row.startswith(("Percpu", "MemAvailable")))
    host = machine(tmp_path, {"proc/meminfo": old})
    assert unseen(meminfo, host) == {
        "memory_available_bytes": "this kernel has no line MemAvailable",
        "memory_percpu_bytes": "this kernel has no line Percpu",
        "memory_unaccounted_bytes": "this kernel has no line Buffers",
    }
    assert len(told(meminfo, host)) == len(GIVES) - 3
