"""proc_cgroups: every controller's row as the kernel wrote it, and none invented."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import AT, damage_in, machine, told

from zombiescope.core import Host, Unreadable
from zombiescope.probes import proc_cgroups
from zombiescope.probes.proc_cgroups import Row, parse

HEAD = "#subsys_name\thierarchy\tnum_cgroups\tenabled\n"
INCIDENT = HEAD + "cpuset\t5\t47\t1\ncpu\t3\t172\t1\ncpuacct\t3\t172\t1\nmemory\t4\t68680\t1\nrdma\t0\t1\t0\n"
WITHOUT_V1 = HEAD + "freezer\t0\t61\t1\nnet_cls\t0\t61\t1\n"  # since 6.12 a controller without its v1 side has no row


def test_rows_of_v1() -> None:
    rows = {row.controller: row for row in parse(INCIDENT)}
    assert rows["memory"] == Row("memory", 4, 68680, 1, "memory\t4\t68680\t1")
    assert rows["cpu"].hierarchy == rows["cpuacct"].hierarchy == 3
    assert rows["rdma"].enabled == 0
    assert list(rows) == ["cpuset", "cpu", "cpuacct", "memory", "rdma"]


def test_a_kernel_without_the_memory_row() -> None:
    assert {row.controller for row in parse(WITHOUT_V1)} == {"freezer", "net_cls"}


def test_the_last_line_may_lack_its_newline() -> None:
    assert parse(INCIDENT.rstrip("\n")) == parse(INCIDENT)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("", 1),
        (HEAD, 1),
        (HEAD + "memory\t4\t68680\n", 2),
        (HEAD + "cpu\t1\t3\t1\nmemory 4 68680 1\n", 3),
        (HEAD + "memory\t4\tmany\t1\n", 2),
        (HEAD + "memory\t4\t1\t1\t1\n", 2),
        (HEAD + "\n", 2),
    ],
)
def test_damage(text: str, line: int) -> None:
    assert damage_in(parse, text) == ("/proc/cgroups", line)


def test_read(tmp_path: Path) -> None:
    host = machine(tmp_path, {"proc/cgroups": INCIDENT, "at": str(AT)})
    seen = told(proc_cgroups, host)
    assert seen["cgroups_known", "controller:memory"] == 68680
    assert seen["cgroup_hierarchy", "controller:memory"] == 4
    assert seen["cgroup_controller_enabled", "controller:rdma"] == 0
    assert len(seen) == 5 * 3
    memory = [it for it in proc_cgroups.read(host) if it.subject == "controller:memory"]
    assert {(it.at, it.source, it.text) for it in memory} == {(AT, "/proc/cgroups", "memory\t4\t68680\t1")}


def test_absent(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="/proc/cgroups: no such file"):
        list(proc_cgroups.read(Host(str(tmp_path), live=False)))
