"""cgroup_mounts and the mount table behind it: v1, v2, hybrid, parts, containers and odd paths."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import MOUNTINFO, NAMESPACE, WHOLE, damage_in, machine, told

from zombiescope.core import Unreadable
from zombiescope.kernel.mounts import CgroupMount, cgroup_mounts, parse, whole
from zombiescope.probes import cgroup_mounts as probe

V2 = "24 23 0:22 / /sys/fs/cgroup rw,nosuid,nodev,noexec,relatime shared:4 - cgroup2 cgroup2 rw,nsdelegate\n"
PART = "35 31 0:32 /docker/7f3a /sys/fs/cgroup/memory ro,relatime master:9 - cgroup cgroup rw,memory\n"
MEMORY = "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n"
SELINUX = (
    "25 24 0:21 / /sys/fs/cgroup/systemd rw,relatime shared:9 - cgroup cgroup rw,seclabel,xattr,"
    "release_agent=/usr/lib/systemd/systemd-cgroups-agent,name=systemd\n"
    "26 24 0:22 / /sys/fs/cgroup/memory rw,relatime shared:10 - cgroup cgroup rw,seclabel,memory\n"
)


def one(text: str) -> CgroupMount:
    (mount,) = parse(text)
    return mount


def test_hybrid() -> None:
    mounts = list(parse(MOUNTINFO))
    assert [(mount.version, mount.subjects) for mount in mounts] == [
        (1, ["controller:cpu", "controller:cpuacct"]),
        (1, ["controller:memory"]),
        (1, ["controller:pids"]),
        (1, ["hierarchy:systemd"]),
        (2, ["hierarchy:v2"]),
    ]
    assert mounts[0].path == "/sys/fs/cgroup/cpu,cpuacct"
    assert {mount.root for mount in mounts} == {"/"}


def test_v2() -> None:
    mount = one(V2)
    assert (mount.version, mount.controllers, mount.name, mount.path) == (2, (), "", "/sys/fs/cgroup")
    assert mount.line + "\n" == V2


def test_options_that_are_no_controllers() -> None:
    assert one(MEMORY.replace("rw,memory", "rw,clone_children,noprefix,memory")).controllers == ("memory",)


def test_the_options_of_selinux_are_no_controllers() -> None:
    assert [mount.subjects for mount in parse(SELINUX)] == [["hierarchy:systemd"], ["controller:memory"]]


def test_escaped_paths() -> None:
    line = r"35 31 0:32 /a\134b /mnt/my\040cgroups\011x\012y rw - cgroup cgroup rw,memory"
    assert (one(line).root, one(line).path) == ("/a\\b", "/mnt/my cgroups\tx\ny")


@pytest.mark.parametrize("odd", ["\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\r"])
def test_only_a_newline_ends_a_line(odd: str) -> None:
    """The kernel escapes blank, tab, newline and backslash; any other byte of a mount point comes as it is."""
    other = f"50 27 0:40 / /mnt/a{odd}b rw - tmpfs tmpfs rw\n"
    assert [mount.path for mount in parse(other + MEMORY)] == ["/sys/fs/cgroup/memory"]


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("hello\n", 1),
        (MEMORY + "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime\n", 2),
        (MEMORY + MEMORY + "35 31 0:32 - cgroup cgroup rw,memory\n", 3),
        (MEMORY + "\n", 2),
    ],
)
def test_damage(text: str, line: int) -> None:
    assert damage_in(parse, text) == ("/proc/self/mountinfo", line)


@pytest.mark.parametrize("order", [PART + MEMORY, MEMORY + PART])
def test_the_whole_is_preferred_to_a_part(tmp_path: Path, order: str) -> None:
    (mount,) = cgroup_mounts(machine(tmp_path, {"proc/self/mountinfo": order}))
    assert mount.root == "/"


@pytest.mark.parametrize(
    ("table", "namespace", "sees_all"),
    [
        (MEMORY, WHOLE, True),
        (MEMORY, None, True),  # before 4.6 there were no cgroup namespaces
        (MEMORY, "cgroup:[4026532281]", False),
        (PART, WHOLE, False),
        (V2.replace(" / /sys", " /../.. /sys"), WHOLE, False),
    ],
)
def test_whole(tmp_path: Path, table: str, namespace: str | None, sees_all: bool) -> None:
    links = {NAMESPACE: namespace} if namespace else {}
    host = machine(tmp_path, {"proc/self/mountinfo": table} | links)
    assert whole(host, cgroup_mounts(host)[0]) is sees_all


def test_read(tmp_path: Path) -> None:
    seen = told(probe, machine(tmp_path, {"proc/self/mountinfo": MOUNTINFO}))
    legacy = ("controller:cpu", "controller:cpuacct", "controller:memory", "controller:pids", "hierarchy:systemd")
    assert seen == {("cgroup_version", it): 1 for it in legacy} | {("cgroup_version", "hierarchy:v2"): 2}


def test_none_is_mounted(tmp_path: Path) -> None:
    host = machine(tmp_path, {"proc/self/mountinfo": "22 27 0:21 / /proc rw,relatime - proc proc rw\n"})
    with pytest.raises(Unreadable, match="/proc/self/mountinfo: no cgroup file system is mounted"):
        list(probe.read(host))
