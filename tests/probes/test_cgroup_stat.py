"""cgroup_stat: live and dying of v2, with and without the rows that tell controllers apart."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import NAMESPACE, damage_in, good, machine, told, unseen

from zombiescope.core import Reading, Unreadable
from zombiescope.probes import cgroup_stat
from zombiescope.probes.cgroup_stat import parse

STAT = "sys/fs/cgroup/unified/cgroup.stat"
SOURCE = "/" + STAT
OLD = "nr_descendants 41\nnr_dying_descendants 68440\n"
NEW = (
    "nr_descendants 41\nnr_subsys_cpu 42\nnr_subsys_memory 42\nnr_subsys_perf_event 42\n"
    "nr_dying_descendants 68440\nnr_dying_subsys_cpu 3\nnr_dying_subsys_memory 68440\nnr_dying_subsys_perf_event 0\n"
)


def test_old_and_new() -> None:
    assert parse(OLD) == {"nr_descendants": 41, "nr_dying_descendants": 68440}
    assert parse(NEW)["nr_dying_subsys_memory"] == 68440
    assert len(parse(NEW)) == 8


@pytest.mark.parametrize(
    ("text", "line"),
    [("", 1), ("nr_dying_descendants 3\n", 1), ("nr_descendants 41\nnr_dying\n", 2), ("nr_descendants many\n", 1)],
)
def test_damage(text: str, line: int) -> None:
    assert damage_in(parse, text, SOURCE) == (SOURCE, line)


def test_read_old(tmp_path: Path) -> None:
    assert told(cgroup_stat, machine(tmp_path, good() | {STAT: OLD})) == {
        ("cgroup_descendants", "hierarchy:v2"): 41,
        ("cgroup_dying_descendants", "hierarchy:v2"): 68440,
    }


def test_read_new(tmp_path: Path) -> None:
    host = machine(tmp_path, good() | {STAT: NEW + "nr_of_the_future 7\n"})
    seen = told(cgroup_stat, host)
    assert seen["cgroup_subsys", "controller:perf_event"] == 42
    assert seen["cgroup_dying_subsys", "controller:memory"] == 68440
    assert len(seen) == 8
    words = {(it.source, it.text) for it in cgroup_stat.read(host) if isinstance(it, Reading)}
    assert words >= {(SOURCE, "nr_dying_subsys_memory 68440")}


def test_a_count_that_is_not_there_is_not_said_to_be_seen(tmp_path: Path) -> None:
    host = machine(tmp_path, good() | {STAT: "nr_descendants 41\n"})
    assert "cgroup_dying_descendants" in unseen(cgroup_stat, host)


def test_a_container_is_blind(tmp_path: Path) -> None:
    host = machine(tmp_path, good() | {NAMESPACE: "cgroup:[4026532281]"})
    with pytest.raises(Unreadable, match=f"{SOURCE}: only a part of the hierarchy"):
        list(cgroup_stat.read(host))


def test_v1_only(tmp_path: Path) -> None:
    table = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
    with pytest.raises(Unreadable, match="/proc/self/mountinfo: no cgroup2"):
        list(cgroup_stat.read(machine(tmp_path, {"proc/self/mountinfo": table})))


def test_a_root_cgroup_mounted_at_the_top(tmp_path: Path) -> None:
    table = "24 1 0:22 / / rw,relatime - cgroup2 cgroup2 rw\n"
    host = machine(tmp_path, {"proc/self/mountinfo": table, "cgroup.stat": OLD})
    assert {it.source for it in cgroup_stat.read(host)} == {"/cgroup.stat"}
