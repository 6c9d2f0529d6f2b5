"""vmstat: counters of memory management, zones added up on kernels of any age."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import VMSTAT, damage_in, machine, told, unseen

from zombiescope.probes import vmstat
from zombiescope.probes.vmstat import GIVES, parse

# Before 4.8 reclaim was counted by zone and stalls were not.
BY_ZONE = """
pgfault 100
pgscan_direct_dma 1
pgscan_direct_dma32 20
pgscan_direct_normal 300
pgscan_direct_movable 4000
pgscan_direct_throttle 7
pgsteal_kswapd_dma32 5
pgsteal_kswapd_normal 60
allocstall 9
""".lstrip()


def test_parse() -> None:
    assert parse(VMSTAT)["pgfault"] == 2320168809
    assert len(parse(VMSTAT)) == 26


@pytest.mark.parametrize(
    ("text", "line"), [("", 1), ("pgfault 1\npgmajfault\n", 2), ("pgfault 1\n\n", 2), ("pgfault x", 1)]
)
def test_damage(text: str, line: int) -> None:
    assert damage_in(parse, text) == ("/proc/vmstat", line)


def test_read_new(tmp_path: Path) -> None:
    host = machine(tmp_path, {"proc/vmstat": VMSTAT})
    seen = told(vmstat, host)
    assert seen["vmstat_allocstall_total", "node"] == 0 + 2 + 40 + 3
    assert seen["vmstat_pgscan_direct_total", "node"] == 17  # throttled scans are another counter
    assert {what for what, _ in seen} == set(GIVES)
    assert unseen(vmstat, host) == {}


def test_read_by_zone(tmp_path: Path) -> None:
    host = machine(tmp_path, {"proc/vmstat": BY_ZONE})
    seen = told(vmstat, host)
    assert seen == {
        ("vmstat_pgfault_total", "node"): 100,
        ("vmstat_pgscan_direct_total", "node"): 4321,
        ("vmstat_pgsteal_kswapd_total", "node"): 65,
        ("vmstat_allocstall_total", "node"): 9,
        ("memory_compressed_pages", "node"): 0,
    }
    assert unseen(vmstat, host)["vmstat_oom_kill_total"] == "this kernel does not count oom_kill"  # since 4.13
    assert len(unseen(vmstat, host)) == len(GIVES) - len(seen)
