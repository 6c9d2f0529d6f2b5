"""Cores that were set apart, as the kernel lists them."""

from __future__ import annotations

from pathlib import Path

import pytest

from zombiescope.core import Host, Unreadable
from zombiescope.probes import reserved_cores

MOUNTS = "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


def machine(root: Path, files: dict[str, str]) -> Host:
    for path, text in ({"proc/self/mountinfo": MOUNTS} | files).items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return Host(str(root), live=False)


def test_isolated_tickless_and_exclusive(tmp_path: Path) -> None:
    files = {
        "sys/devices/system/cpu/isolated": "2-3\n",
        "sys/devices/system/cpu/nohz_full": "  (null)\n",
        "sys/fs/cgroup/rt.slice/cpuset.cpus.partition": "root\n",
        "sys/fs/cgroup/rt.slice/cpuset.cpus.effective": "7\n",
        "sys/fs/cgroup/bad.slice/cpuset.cpus.partition": "root invalid (x)\n",
        "sys/fs/cgroup/bad.slice/cpuset.cpus.effective": "\n",
        "sys/fs/cgroup/user.slice/cpuset.cpus.partition": "member\n",
        "sys/fs/cgroup/user.slice/cpuset.cpus.effective": "0-7\n",
    }
    told = {it.subject: it.text for it in reserved_cores.read(machine(tmp_path, files))}
    assert told == {"cpu:2": "isolated", "cpu:3": "isolated", "cpu:7": "exclusive to /rt.slice"}


def test_where_nothing_is_listed_it_is_blind(tmp_path: Path) -> None:
    with pytest.raises(Unreadable):
        list(reserved_cores.read(machine(tmp_path, {"sys/fs/cgroup/x": ""})))
