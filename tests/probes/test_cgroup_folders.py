"""cgroup_folders: the live cgroups of each hierarchy, blind rather than wrong where only a part can be seen."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.probes.machine import NAMESPACE, good, machine, told

from zombiescope.core import Blind, Unreadable
from zombiescope.probes import cgroup_folders


def test_read(tmp_path: Path) -> None:
    host = machine(tmp_path, good())
    controllers = {"cpu": 3, "cpuacct": 3, "memory": 4, "pids": 1}
    hierarchies = {"systemd": 1, "v2": 1}
    assert told(cgroup_folders, host) == {
        **{("cgroup_folders", f"controller:{name}"): folders for name, folders in controllers.items()},
        **{("cgroup_folders", f"hierarchy:{name}"): folders for name, folders in hierarchies.items()},
    }
    sources = {it.subject: it.source for it in cgroup_folders.read(host)}
    assert sources["controller:memory"] == "$ find /sys/fs/cgroup/memory -type d | wc -l"


def test_files_are_not_counted(tmp_path: Path) -> None:
    host = machine(tmp_path, good() | {"sys/fs/cgroup/pids/cgroup.procs": "1\n", "sys/fs/cgroup/pids/tasks": ""})
    assert told(cgroup_folders, host)["cgroup_folders", "controller:pids"] == 1


def test_one_hierarchy_that_is_gone_costs_only_itself(tmp_path: Path) -> None:
    host = machine(tmp_path, good())
    shutil.rmtree(tmp_path / "sys/fs/cgroup/memory")
    blind = [it for it in cgroup_folders.read(host) if isinstance(it, Blind)]
    assert [(it.subject, it.why) for it in blind] == [("controller:memory", "no such file or directory")]
    assert len(told(cgroup_folders, host)) == 5


def test_a_container_is_blind(tmp_path: Path) -> None:
    host = machine(tmp_path, good() | {NAMESPACE: "cgroup:[4026532281]"})
    with pytest.raises(Unreadable, match="only a part of the hierarchy"):
        list(cgroup_folders.read(host))


def test_nothing_is_mounted(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no cgroup file system"):
        list(cgroup_folders.read(machine(tmp_path, {"proc/self/mountinfo": ""})))
