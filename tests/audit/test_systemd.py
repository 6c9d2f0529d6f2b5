"""A real systemd, asked over its bus: what it says of its units, how it is cured, and that a dead bus hangs nobody."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.waiting import until

from zombiescope.audit.loops import RestartPolicy, judge
from zombiescope.audit.systemd import POLICY, Systemd, Unit, address_for, cgroup_of, cgroup_prefix, policy_of
from zombiescope.core import Host, Unreadable, UserError
from zombiescope.lab._systemd import Booted, booted

LOOP = """
[Unit]
DefaultDependencies=no
StartLimitIntervalSec=0
[Service]
ExecStart=/bin/false
Restart=always
RestartSec=0.1
"""
DEAF = """
[Unit]
DefaultDependencies=no
[Service]
ExecStart=/bin/sleep infinity
Restart=on-failure
RestartSec=0
RestartPreventExitStatus=5 SIGABRT
Slice=zslab-deep.slice
"""
NEEDED = "[Unit]\nDefaultDependencies=no\nRequires=deaf.service\n[Service]\nExecStart=/bin/sleep infinity\n"
UNITS = {"loop.service": LOOP, "masked.service": LOOP, "deaf.service": DEAF, "needs.service": NEEDED}


@pytest.fixture(scope="module")
def systemd(can_boot: None) -> Iterator[Booted]:  # noqa: ARG001
    with booted(UNITS, label="test") as running:
        yield running


@pytest.fixture
def bus(systemd: Booted) -> Iterator[Systemd]:
    with Systemd(systemd.bus, limit=20.0) as asked:
        yield asked


def unit(bus: Systemd, name: str) -> Unit:
    (found,) = bus.units(name)
    return found


@pytest.mark.kernel
@pytest.mark.beside
def test_what_it_says_agrees_with_systemctl(systemd: Booted, bus: Systemd) -> None:
    deaf = unit(bus, "deaf.service")
    assert (deaf.load, deaf.state) == ("loaded", "active (running)")
    told = bus.everything(deaf.path)
    for name in ("NRestarts", "Result", "ControlGroup", "UnitFileState", "UnitFilePreset", "FragmentPath", "Restart"):
        assert str(told[name]) == systemd.show("deaf.service", name)
    assert told["RequiredBy"] == ["needs.service"] and "zslab.target" in told["WantedBy"]
    assert told["ControlGroup"] == cgroup_of("deaf.service", {"Slice": told["Slice"]}), "as we would guess it"
    wanted = RestartPolicy(restart="on-failure", pause=0.0, interval=10.0, burst=5, prevented_by=("5", "6"))
    assert policy_of(told) == policy_of(bus.get([deaf.path], POLICY)[deaf.path]) == wanted
    assert bus.get([deaf.path, "/org/freedesktop/systemd1/unit/nobody"], ["NRestarts", "Nonsense"]) == {
        deaf.path: {"NRestarts": told["NRestarts"]}
    }


@pytest.mark.kernel
@pytest.mark.beside
def test_where_its_cgroups_are(systemd: Booted) -> None:
    assert cgroup_prefix(Host(), systemd.bus) == f"/{systemd.name}"
    assert cgroup_prefix(Host(), "unix:path=/run/dbus/system_bus_socket") == ""


@pytest.mark.kernel
@pytest.mark.beside
def test_restarts_are_counted_and_a_start_by_hand_begins_anew(systemd: Booted, bus: Systemd) -> None:
    path = unit(bus, "deaf.service").path

    def restarts() -> int:
        return int(bus.get([path], ["NRestarts"])[path]["NRestarts"])

    for times in (1, 2, 3):
        systemd.systemctl("kill", "--signal=SEGV", "deaf.service")
        until(lambda times=times: restarts() == times)
        until(lambda: unit(bus, "deaf.service").sub == "running")
    systemd.systemctl("restart", "deaf.service")
    assert restarts() == 0


@pytest.mark.kernel
@pytest.mark.beside
def test_mask_ends_a_loop(systemd: Booted, bus: Systemd) -> None:
    path = unit(bus, "masked.service").path
    until(lambda: bus.get([path], ["NRestarts"])[path]["NRestarts"] > 2)
    systemd.systemctl("mask", "--now", "masked.service")
    until(lambda: unit(bus, "masked.service").active in ("failed", "inactive"))
    assert unit(bus, "masked.service").load == "masked"


@pytest.mark.kernel
@pytest.mark.beside
def test_a_drop_in_ends_a_loop(systemd: Booted, bus: Systemd) -> None:
    path = unit(bus, "loop.service").path
    assert judge(policy_of(bus.everything(path))).for_ever
    folder = f"{systemd.root}/run/systemd/system/loop.service.d"
    os.makedirs(folder)
    with open(f"{folder}/limit.conf", "w") as file:
        file.write("[Unit]\nStartLimitIntervalSec=60\nStartLimitBurst=3\n")
    systemd.systemctl("daemon-reload")
    told = bus.everything(path)
    assert told["DropInPaths"] == ["/run/systemd/system/loop.service.d/limit.conf"]
    assert not judge(policy_of(told)).for_ever
    until(lambda: unit(bus, "loop.service").active == "failed")  # the start limit trips


@pytest.mark.kernel
@pytest.mark.beside
def test_systemd_may_begin_anew_under_us(systemd: Booted, bus: Systemd) -> None:
    assert unit(bus, "needs.service").active == "active"
    systemd.systemctl("daemon-reexec")
    # While it begins anew a question may get no reply; the next one does.
    until(lambda: [it.active for it in _answer(bus, "needs.service")] == ["active"])


@pytest.mark.kernel
@pytest.mark.beside
def test_a_bus_that_stops_answering_costs_one_time_limit_and_is_asked_again(systemd: Booted) -> None:
    with open(f"/proc/{systemd.pid}/task/{systemd.pid}/children") as children:
        daemons = {int(pid): Path(f"/proc/{pid}/comm").read_text().strip() for pid in children.read().split()}
    (daemon,) = (pid for pid, name in daemons.items() if name == "dbus-daemon")
    with Systemd(systemd.bus, limit=1.0) as bus:
        assert bus.units("dbus.service")
        os.kill(daemon, signal.SIGSTOP)
        try:
            with pytest.raises(Unreadable, match="no answer in 1 s"):
                bus.units("dbus.service")
        finally:
            os.kill(daemon, signal.SIGCONT)
        until(lambda: bool(_answer(bus)))


def _answer(bus: Systemd, name: str = "dbus.service") -> list[Unit]:
    try:
        return bus.units(name)
    except Unreadable:
        return []


def test_a_socket_that_nobody_serves_does_not_hang_us(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as deaf:
        deaf.bind(str(tmp_path / "bus"))
        deaf.listen()
        with Systemd(f"unix:path={tmp_path}/bus", limit=0.5) as bus, pytest.raises(Unreadable, match="no answer"):
            bus.units("*")


@pytest.mark.parametrize("address", ["unix:path=/nonexistent/bus", "nonsense", "unix:", "tcp:host=127.0.0.1,port=1"])
def test_a_bus_that_is_away_says_so(address: str) -> None:
    with Systemd(address, limit=2.0) as bus, pytest.raises(Unreadable) as refused:
        bus.units("*")
    assert refused.value.source.startswith(("/", "$ ")) and refused.value.why


def test_addresses(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZOMBIESCOPE_SYSTEMD_BUS", raising=False)
    assert address_for(Host()) == "unix:path=/run/dbus/system_bus_socket"
    assert address_for(Host(str(tmp_path), live=True)) == f"unix:path={tmp_path}/run/dbus/system_bus_socket"
    monkeypatch.setenv("ZOMBIESCOPE_SYSTEMD_BUS", "unix:path=/proc/7/root/run/dbus/system_bus_socket")
    assert "/proc/7/root" in address_for(Host())
    with pytest.raises(Unreadable, match="no D-Bus"):
        address_for(Host(str(tmp_path), live=False))


def test_cgroups_of_units() -> None:
    assert cgroup_of("x.service", {"ControlGroup": "/a/x.service"}) == "/a/x.service"
    assert cgroup_of("x.service", {"ControlGroup": "", "Slice": "a-b.slice"}) == "/a.slice/a-b.slice/x.service"
    assert cgroup_of("x.service", {"Slice": "-.slice"}) == "/x.service"
    assert cgroup_of("x.service", {}) == "/system.slice/x.service"


@pytest.mark.kernel
@pytest.mark.beside
@pytest.mark.usefixtures("can_boot")
def test_what_cannot_boot_says_why_and_leaves_nothing() -> None:
    with pytest.raises(UserError, match="systemctl start nobody"), booted({}, label="test-fails") as running:
        running.systemctl("start", "nobody.service")
    assert not os.path.exists(f"/proc/{running.pid}")
    assert not any((folder / running.name).exists() for folder in Path("/sys/fs/cgroup").iterdir())
