"""Cores that were set apart, as the kernel lists them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.files import node_of

from zombiescope.core import Host, Unparsable, Unreadable
from zombiescope.probes import reserved_cores

MOUNTS = "30 20 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"


GROUP = "sys/fs/cgroup"


def partition(path: str, kind: str, cores: str) -> dict[str, str]:
    return {f"{GROUP}/{path}/cpuset.cpus.partition": f"{kind}\n", f"{GROUP}/{path}/cpuset.cpus.effective": f"{cores}\n"}


def machine(root: Path, files: dict[str, str]) -> Host:
    return node_of(root, {"proc/self/mountinfo": MOUNTS} | files)


def test_isolated_tickless_and_exclusive(tmp_path: Path) -> None:
    files = {
        "sys/devices/system/cpu/isolated": "2-3\n",
        "sys/devices/system/cpu/nohz_full": "  (null)\n",
        "sys/devices/system/cpu/online": "0-7\n",
        **partition("rt.slice", "root", "7"),
        **partition("bad.slice", "root invalid (x)", ""),
        **partition("user.slice", "member", "0-7"),
    }
    told = {it.subject: it.text for it in reserved_cores.read(machine(tmp_path, files))}
    assert told == {"cpu:2": "isolated", "cpu:3": "isolated", "cpu:7": "exclusive to /rt.slice"}


NONE = {"sys/devices/system/cpu/isolated": "\n", "sys/devices/system/cpu/online": "0-15\n"}


def told(root: Path, files: dict[str, str]) -> dict[str, str]:
    return {it.subject: it.text for it in reserved_cores.read(machine(root, NONE | files))}


def test_partitions_at_every_level(tmp_path: Path) -> None:
    """Where the controller ends, so does the search: nothing below can have it."""
    files = {
        **partition("a.slice", "member", "0-15"),
        **partition("a.slice/b", "member", "0-15"),
        **partition("a.slice/b/c", "isolated", "4-5"),
        **partition("a.slice/b/c/d", "root", "6"),
        **partition("a.slice/b/bad", "root invalid (Cpu list in cpuset.cpus not exclusive)", "7"),
        **partition("all", "root", "0-15"),
        f"{GROUP}/none/cgroup.procs": "",
        **partition("none/below", "root", "9"),
    }
    assert told(tmp_path, files) == {
        "cpu:4": "exclusive to /a.slice/b/c",
        "cpu:5": "exclusive to /a.slice/b/c",
        "cpu:6": "exclusive to /a.slice/b/c/d",
    }


def test_exclusive_cpusets_of_v1_at_every_level(tmp_path: Path) -> None:
    top = f"{GROUP}/cpuset"
    files = {
        "proc/self/mountinfo": "35 31 0:32 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n",
        f"{top}/cpuset.cpus": "0-15\n",
        f"{top}/cpuset.cpu_exclusive": "1\n",
    }
    for path, flag, cores in (("all", 1, "0-15"), ("all/db", 1, "8-9"), ("all/web", 0, "0-7"), ("all/db/x", 0, "8")):
        files |= {f"{top}/{path}/cpuset.cpu_exclusive": f"{flag}\n", f"{top}/{path}/cpuset.cpus": f"{cores}\n"}
    assert told(tmp_path, files) == {"cpu:8": "exclusive to /all/db", "cpu:9": "exclusive to /all/db"}


STATE = "var/lib/kubelet/cpu_manager_state"
PINNED = {"policyName": "static", "defaultCpuSet": "0,4-15", "entries": {"b8-1f": {"train": "2-3", "side": "1"}}}


def test_cores_that_the_kubelet_gave_to_one_container(tmp_path: Path) -> None:
    one = "exclusive to container train of pod b8-1f (kubelet)"
    both = {"cpu:2": one, "cpu:3": one, "cpu:1": "exclusive to container side of pod b8-1f (kubelet)"}
    assert told(tmp_path / "now", {STATE: json.dumps(PINNED)}) == both
    old = {"policyName": "static", "defaultCpuSet": "0", "entries": {"d34f": "2"}}
    assert told(tmp_path / "old", {STATE: json.dumps(old)}) == {"cpu:2": "exclusive to container d34f (kubelet)"}
    assert told(tmp_path / "off", {STATE: json.dumps(PINNED | {"policyName": "none"})}) == {}
    assert told(tmp_path / "new", {STATE: '{"policyName":"static","defaultCpuSet":"0-15","checksum":1}'}) == {}


@pytest.mark.parametrize("text", ["{", "[]", '{"policyName":"static","entries":{"a":{"b":"x"}}}', "[" * 9999])
def test_a_state_that_is_not_understood_is_blind(tmp_path: Path, text: str) -> None:
    with pytest.raises((Unreadable, Unparsable), match="cpu_manager_state"):
        told(tmp_path, {STATE: text})


def test_more_than_can_be_read_is_blind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {name: text for number in range(5) for name, text in partition(f"{number}", "member", "0-15").items()}
    monkeypatch.setattr(reserved_cores, "MOST", 4)
    with pytest.raises(Unreadable, match="more than 4 folders"):
        told(tmp_path, files)
    monkeypatch.setattr(reserved_cores, "MOST", 100)
    monkeypatch.setattr(reserved_cores, "SECONDS", 0.0)
    with pytest.raises(Unreadable, match="not all cgroups read"):
        told(tmp_path, files)


def test_where_nothing_is_listed_it_is_blind(tmp_path: Path) -> None:
    with pytest.raises(Unreadable):
        list(reserved_cores.read(machine(tmp_path, {"sys/fs/cgroup/x": ""})))
