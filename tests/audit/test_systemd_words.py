"""What needs no systemd: whose bus an address is, the command that shows the same, whether PID 1 can be asked."""

from __future__ import annotations

from pathlib import Path

import pytest

from zombiescope.audit.systemd import ANOTHER_BUS, Systemd, Unit, another_init, cgroup_prefix, policy_of, system_of
from zombiescope.core import Host, Unreadable

UNIT = Unit("a b.service", "loaded", "active", "running", "/org/freedesktop/systemd1/unit/a")
NODES = "unix:path=/run/dbus/system_bus_socket"


def machine(root: Path, **comms: str) -> Host:
    for pid, name in comms.items():
        (root / f"proc/{pid[1:]}").mkdir(parents=True, exist_ok=True)
        (root / f"proc/{pid[1:]}/comm").write_text(f"{name}\n")
    return Host(str(root), live=True)


@pytest.mark.parametrize(
    ("init", "kernel", "another"),
    [("systemd", "kthreadd", ""), ("init", "kthreadd", ""), ("runit", "kthreadd", "runit"), ("runit", "sh", "")],
)
def test_pid_1_is_certainly_another_only_where_all_processes_are_seen(
    init: str, kernel: str, another: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv(ANOTHER_BUS, raising=False)
    host = machine(tmp_path, _1=init, _2=kernel)
    assert another_init(host) == another
    monkeypatch.setenv(ANOTHER_BUS, NODES)
    assert another_init(host) == ""


@pytest.mark.parametrize(
    ("address", "own"),
    [
        (NODES, True),
        ("unix:path=/host/run/dbus/system_bus_socket", True),
        ("unix:path=/proc/1/root/run/dbus/system_bus_socket", True),
        ("unix:path=/proc/7/root/run/dbus/system_bus_socket", False),
        ("unix:path=/tmp/bus", False),
        ("unix:path=/proc/1/root/tmp/bus", False),
    ],
)
def test_the_command_that_shows_the_same(address: str, own: bool) -> None:
    with Systemd(address) as bus:
        if own:
            assert bus.source(UNIT, "NRestarts") == "$ systemctl show -p NRestarts 'a b.service'"
            assert bus.source(None, "Version") == "$ systemctl show -p Version"
            return
        head = f"$ busctl --address={address} get-property org.freedesktop.systemd1"
        for name, kind in (("NRestarts", "Service"), ("StartLimitBurst", "Unit")):
            assert bus.source(UNIT, name) == f"{head} {UNIT.path} org.freedesktop.systemd1.{kind} {name}"
        manager = "/org/freedesktop/systemd1 org.freedesktop.systemd1.Manager"
        assert bus.source(None, "Version") == f"{head} {manager} Version"


def test_the_system_of_a_bus_in_namespaces_is_entered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = Host(str(tmp_path), live=True)
    for own in (NODES, "unix:path=/tmp/proc/7/root/x", ""):
        monkeypatch.setenv(ANOTHER_BUS, own)
        assert system_of(node) is node
    monkeypatch.setenv(ANOTHER_BUS, "unix:path=/proc/77/root/run/dbus/system_bus_socket")
    entered = system_of(node)
    assert entered.live and entered.root == "/proc/77/root" and entered.enter[:2] == ("nsenter", "--target=77")
    assert entered.enter[-1] == "--" and "--root=/proc/77/root" in entered.enter
    recorded = Host(str(tmp_path), live=False)
    assert system_of(recorded) is recorded, "nobody enters the namespaces of a recording"


@pytest.mark.parametrize(
    ("rows", "prefix"),
    [
        ("3:memory:/x\n1:name=systemd:/lab/init.scope\n0::/other\n", "/lab"),
        ("0::/lab/init.scope\n", "/lab"),
        ("0::/\n", ""),
        ("nonsense\n0::/a:b/\n", "/a:b"),
    ],
)
def test_where_the_cgroups_of_another_systemd_are(rows: str, prefix: str, tmp_path: Path) -> None:
    (tmp_path / "proc/7").mkdir(parents=True)
    (tmp_path / "proc/7/cgroup").write_text(rows)
    host = Host(str(tmp_path), live=True)
    assert cgroup_prefix(host, "unix:path=/proc/7/root/run/dbus/system_bus_socket") == prefix
    assert cgroup_prefix(host, NODES) == ""
    with pytest.raises(Unreadable):
        cgroup_prefix(host, "unix:path=/proc/8/root/run/dbus/system_bus_socket")


def test_a_policy_of_which_systemd_says_nothing_never_restarts() -> None:
    nothing = policy_of({})
    assert (nothing.restart, nothing.pause, nothing.interval, nothing.burst) == ("no", 0.0, 0.0, 0)
    assert nothing.prevented_by == () and not nothing.restarts


def test_an_address_of_several_parts_is_tried_and_a_plain_one_must_exist(tmp_path: Path) -> None:
    with Systemd(f"unix:path={tmp_path}/none") as bus, pytest.raises(Unreadable, match="no such file") as away:
        bus.units("*")
    assert away.value.source == f"{tmp_path}/none"
    with Systemd(f"unix:path={tmp_path}/none,guid=00", limit=2.0) as bus, pytest.raises(Unreadable, match="is away"):
        bus.units("*")
