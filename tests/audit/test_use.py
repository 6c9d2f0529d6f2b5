"""Signs of use on small roots: each kind holds, does not hold, or could not be looked at; unused needs all of it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.files import write

from zombiescope.audit.use import Usage, Use
from zombiescope.core import Host, Unreadable
from zombiescope.knowledge.agents import Agent, SignOfUse, agents

MOUNTINFO = """22 27 0:21 / /proc rw - proc proc rw
35 31 0:32 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw
"""
TCP = """  sl  local_address rem_address   st
   0: 00000000:238C 00000000:0000 0A
   1: 0100007F:238C 0100007F:A1B2 01
"""
LISTENS = "  sl  local_address rem_address   st\n   0: 00000000:238C 00000000:0000 0A\n   1: 00000000:238C cut\n"


def usage(folder: Path, files: Mapping[str, str], active: dict[str, str] | None = None, *, live: bool = True) -> Usage:
    """A running machine of a few files: `live` says that what is not there is not there."""
    always = {"proc/self/mountinfo": MOUNTINFO, "proc/1/comm": "systemd\n"}
    write(folder, always | {"sys/fs/cgroup/memory/": "", "sys/fs/cgroup/unified/": ""} | dict(files))
    return Usage(Host(str(folder), live=live), active)


def agent(**sign: object) -> Agent:
    return Agent(name="x", says="y", units=("x.service",), use=(SignOfUse(says="so", **sign),))  # type: ignore[arg-type]


def of(used: Usage, whose: Agent, needed_by: tuple[str, ...] = (), *, wanted: bool = True) -> Use:
    return used.of(whose, needed_by, wanted=wanted)


@pytest.mark.parametrize(
    ("sign", "files", "held"),
    [
        ({"kind": "file_exists", "path": "/etc/x/conf"}, {"etc/x/conf": ""}, True),
        ({"kind": "file_exists", "path": "/etc/x/conf"}, {}, False),
        ({"kind": "file_contains", "path": "/etc/x", "pattern": r"^KEY=\S"}, {"etc/x": "#KEY=\nKEY=abc\n"}, True),
        ({"kind": "file_contains", "path": "/etc/x", "pattern": r"^KEY=\S"}, {"etc/x": "#KEY=1\nKEY=\n"}, False),
        ({"kind": "file_contains", "path": "/etc/x", "pattern": r"^KEY=\S"}, {"etc/x/": ""}, None),
        ({"kind": "folder_filled", "path": "/var/x"}, {"var/x/one": ""}, True),
        ({"kind": "folder_filled", "path": "/var/x", "pattern": "*.snap"}, {"var/x/one": ""}, False),
        ({"kind": "folder_filled", "path": "/var/x"}, {"var/x/": ""}, False),
        ({"kind": "cgroup_exists", "pattern": "/ecs/*"}, {"sys/fs/cgroup/memory/ecs/5f0c/": ""}, True),
        ({"kind": "cgroup_exists", "pattern": "/ecs/*"}, {"sys/fs/cgroup/unified/ecs/5f0c/": ""}, True),
        ({"kind": "cgroup_exists", "pattern": "/ecs/*"}, {"sys/fs/cgroup/memory/ecs/": ""}, False),
        ({"kind": "process_running", "names": ("shim",)}, {"proc/7/comm": "shim\n"}, True),
        ({"kind": "process_running", "names": ("shim",)}, {}, False),
        ({"kind": "port_connected", "port": 9100}, {"proc/net/tcp": TCP}, True),
        ({"kind": "port_connected", "port": 9101}, {"proc/net/tcp": TCP}, False),
        ({"kind": "port_connected", "port": 9100}, {}, None),
        ({"kind": "port_connected", "port": 9100}, {"proc/net/tcp": LISTENS}, False),
        ({"kind": "port_connected", "port": 9100}, {"proc/net/tcp": LISTENS, "proc/net/tcp6": TCP}, True),
    ],
)
def test_each_kind(tmp_path: Path, sign: dict[str, object], files: dict[str, str], held: bool | None) -> None:
    (seen,) = of(usage(tmp_path, files, {}), agent(**sign)).seen
    assert seen.held is held
    begins = {True: "so", False: "absent: so", None: "not checked ("}[held]
    assert seen.source.startswith(("/", "$ ")) and seen.says.startswith(begins) and "so" in seen.says


def test_units_that_are_active(tmp_path: Path) -> None:
    docker = agent(kind="unit_active", pattern="docker.*")
    assert of(usage(tmp_path, {}, {"docker.service": "active"}), docker).answer == "used"
    for state in ("activating", "reloading"):
        assert of(usage(tmp_path, {}, {"other.service": "active", "docker.socket": state}), docker).answer == "used"
    for state in ("inactive", "failed", "deactivating"):
        states = {"docker.service": state, "other.service": "active"}
        assert of(usage(tmp_path, {}, states), docker).answer == "unused"
    assert of(usage(tmp_path, {}, None), docker).answer == "cannot tell", "systemd could not be asked"


ECS = next(it for it in agents() if it.name == "ecs")


def test_ecs_unused_on_a_node_of_kubernetes(tmp_path: Path) -> None:
    files = {"sys/fs/cgroup/memory/kubepods/pod1/": "", "etc/ecs/ecs.config": "ECS_LOGLEVEL=info\n#ECS_CLUSTER=x\n"}
    use = of(usage(tmp_path, files, {}), ECS)
    assert use.answer == "unused" and "none of 6 signs of use" in use.says and len(use.seen) == 6


@pytest.mark.parametrize(
    "files",
    [
        {"etc/ecs/ecs.config": "ECS_CLUSTER=prod\n"},
        {"var/lib/ecs/data/agent.db": "\0\1 arn:aws:ecs:us-east-1:1:container-instance/x"},
        {"sys/fs/cgroup/memory/ecs/0a1b2c/": ""},
    ],
    ids=["configured", "registered", "a task"],
)
def test_one_sign_is_enough(tmp_path: Path, files: dict[str, str]) -> None:
    assert of(usage(tmp_path, files, {}), ECS).answer == "used"


def test_never_unused_when_needed_not_wanted_not_seen_or_not_claimable(tmp_path: Path) -> None:
    machine = usage(tmp_path, {}, {})
    assert of(machine, ECS, ("docker.service",)).answer == "used"
    assert of(machine, ECS, wanted=False).answer == "cannot tell"
    exporter = next(it for it in agents() if it.name == "node-exporter")
    assert of(usage(tmp_path, {"proc/net/tcp": ""}, {}), exporter).answer == "cannot tell"
    image = of(usage(tmp_path, {}, {}, live=False), ECS)
    assert image.answer == "cannot tell" and "running node only" in image.says


def test_other_hierarchies_are_not_walked_and_none_is_said(tmp_path: Path) -> None:
    rows = (
        "30 24 0:26 / /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu\n31 24 0:27 / /memory rw - tmpfs memory rw,memory\n"
    )
    machine = usage(tmp_path, {"proc/self/mountinfo": rows, "sys/fs/cgroup/cpu/ecs/5f0c/": "", "memory/ecs/1/": ""}, {})
    with pytest.raises(Unreadable, match="no cgroup hierarchy is mounted"):
        machine.cgroups()
    with pytest.raises(Unreadable, match="no cgroup hierarchy is mounted"):
        machine.cgroups()
    assert of(machine, ECS).answer == "cannot tell"


def test_signs_that_could_not_be_checked_are_named_once_each(tmp_path: Path) -> None:
    (tmp_path / "etc/x").mkdir(parents=True)
    sign = SignOfUse(kind="file_contains", path="/etc/x", pattern="x", says="so")
    twice = Agent(name="x", says="y", units=("x.service",), use=(sign, sign))
    use = of(usage(tmp_path, {}, {}), twice)
    assert use.answer == "cannot tell" and use.says.count("not checked") == 1
    assert of(usage(tmp_path, {}, {}), Agent(name="x", says="y", units=("x.service",))).answer == "cannot tell"


def test_cgroups_are_walked_once_for_all(tmp_path: Path) -> None:
    machine = usage(tmp_path, {"sys/fs/cgroup/memory/system.slice/run-r5f0c.scope/": ""}, {})
    assert machine.cgroups() is machine.cgroups() and "/system.slice/run-r5f0c.scope" in machine.cgroups()


@pytest.mark.parametrize(("padding", "held"), [((4 << 20) - 8, True), (4 << 20, None)])
def test_a_file_too_large_to_read_is_not_called_unused(tmp_path: Path, padding: int, held: bool | None) -> None:
    found = of(
        usage(tmp_path, {"etc/x": "x" * padding + "\nKEY=abc"}, {}),
        agent(kind="file_contains", path="/etc/x", pattern=r"^KEY=\S"),
    )
    assert found.seen[0].held is held and found.answer == ("used" if held else "cannot tell")
