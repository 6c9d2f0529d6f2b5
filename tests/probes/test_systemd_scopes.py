"""systemd_scopes: systemd's own scopes and no other's, v1 and v2; what cannot be seen is not called empty."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.probes.machine import MOUNTINFO, machine, told, unseen

from zombiescope.core import Host, Reading, Unreadable
from zombiescope.probes import systemd_scopes

V2 = "24 23 0:22 / /sys/fs/cgroup rw,relatime - cgroup2 cgroup2 rw,nsdelegate\n"
TOP = "sys/fs/cgroup/systemd"


def v1(root: Path, **files: str) -> Host:
    tree = {
        "init.scope/cgroup.procs": "1\n",
        "system.slice/run-r1.scope/cgroup.procs": "",
        "system.slice/run-r2.scope/cgroup.procs": "4711\n",
        "system.slice/cron.service/cgroup.procs": "12\n",
        "user.slice/user-0.slice/session-3.scope/cgroup.procs": "",
        # A container that has moved its processes further down, and a systemd in it with scopes of its own.
        "machine.slice/libpod-1.scope/cgroup.procs": "",
        "machine.slice/libpod-1.scope/payload/cgroup.procs": "99\n",
        "machine.slice/libpod-1.scope/payload/system.slice/run-r9.scope/cgroup.procs": "",
        "user.slice/user-0.slice/user@0.service/app.slice/run-r8.scope/cgroup.procs": "",
    } | files
    return machine(root, {"proc/self/mountinfo": MOUNTINFO, **{f"{TOP}/{name}": text for name, text in tree.items()}})


def names(host: Host) -> list[str]:
    (empty,) = (it for it in systemd_scopes.read(host) if isinstance(it, Reading) and it.what == "empty_scopes")
    assert empty.value == len(empty.text.split())
    return empty.text.split()


def test_without_systemd_no_scope_is_checked(tmp_path: Path) -> None:
    host = v1(tmp_path)
    for pid, name in ((1, "runit"), (2, "kthreadd")):
        (tmp_path / f"proc/{pid}").mkdir()
        (tmp_path / f"proc/{pid}/comm").write_text(f"{name}\n")
    with pytest.raises(Unreadable, match="PID 1 is runit: no systemd runs"):
        list(systemd_scopes.read(host))


def test_v1(tmp_path: Path) -> None:
    host = v1(tmp_path)
    assert told(systemd_scopes, host) == {("scopes", "node"): 5, ("empty_scopes", "node"): 2}
    assert names(host) == ["run-r1.scope", "session-3.scope"]


def test_v2(tmp_path: Path) -> None:
    files = {
        "init.scope/cgroup.events": "populated 1\nfrozen 0\n",
        "system.slice/run-r1.scope/cgroup.events": "populated 0\nfrozen 0\n",
        "system.slice/run-r2.scope/cgroup.events": "populated 1\nfrozen 0\n",
        "system.slice/run-r3.scope/cgroup.procs": "",  # tells nothing of what is below it
    }
    host = machine(tmp_path, {"proc/self/mountinfo": V2, **{f"sys/fs/cgroup/{it}": files[it] for it in files}})
    assert told(systemd_scopes, host) == {("scopes", "node"): 4, ("empty_scopes", "node"): 1}
    assert names(host) == ["run-r1.scope"]


@pytest.mark.parametrize("name", ["a b.scope", "a\nb.scope", "\x1b[31m.scope", "-x.scope/..", "é.scope"])
def test_what_is_no_unit_s_name_is_no_scope(tmp_path: Path, name: str) -> None:
    host = v1(tmp_path, **{f"system.slice/{name}/cgroup.procs": ""})
    assert set(names(host)) <= {"run-r1.scope", "session-3.scope"}


def test_bounds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    host = v1(tmp_path)
    monkeypatch.setattr(systemd_scopes, "MOST", 3)
    assert told(systemd_scopes, host)["scopes", "node"] == 5
    assert "2 scopes more than" in unseen(systemd_scopes, host)["empty_scopes"]
    monkeypatch.setattr(systemd_scopes, "SLICES", 2)
    with pytest.raises(Unreadable, match="more than 2 slices"):
        list(systemd_scopes.read(host))
    monkeypatch.undo()
    monkeypatch.setattr(systemd_scopes, "TOLD", 1)
    (empty,) = (it for it in systemd_scopes.read(host) if isinstance(it, Reading) and it.what == "empty_scopes")
    assert (empty.value, empty.text) == (2, "run-r1.scope")


def test_no_systemd_at_all(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="no cgroup hierarchy of systemd"):
        list(systemd_scopes.read(machine(tmp_path, {"proc/self/mountinfo": "22 27 0:21 / /proc rw - proc proc rw\n"})))
    bare = machine(tmp_path / "bare", {"proc/self/mountinfo": MOUNTINFO, f"{TOP}/cgroup.procs": "1\n"})
    assert told(systemd_scopes, bare) == {("scopes", "node"): 0, ("empty_scopes", "node"): 0}
