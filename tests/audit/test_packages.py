"""Who owns a file: dpkg's lists with both spellings of /usr, rpm's database as rpm writes it, and what is refused."""

from __future__ import annotations

import hashlib
import shutil
import sqlite3
import struct
import subprocess
from pathlib import Path

import pytest
from tests.probes.machine import machine

from zombiescope.audit.packages import header, owners
from zombiescope.core import Host, Unreadable

UNIT = "/usr/lib/systemd/system/ecs.service"
INFO = "var/lib/dpkg/info"


def test_dpkg_lists_either_spelling(tmp_path: Path) -> None:
    text = "[Service]\n"
    sums = {
        "lib/systemd/system/ecs.service": hashlib.md5(text.encode()).hexdigest(),
        "lib/systemd/system/edited.service": "0" * 32,
    }
    host = machine(
        tmp_path,
        {
            UNIT.lstrip("/"): text,
            "usr/lib/systemd/system/edited.service": "changed",
            "etc/own.service": "",
            f"{INFO}/amazon-ecs-init:amd64.list": "/.\n/lib\n" + "".join(f"/{name}\n" for name in sums),
            f"{INFO}/amazon-ecs-init:amd64.md5sums": "".join(f"{it}  {name}\n" for name, it in sums.items()),
            f"{INFO}/other.list": "/usr/lib/systemd/system/ecs.service.d\n",
        },
    )
    found = owners(host, [UNIT, "/usr/lib/systemd/system/edited.service", "/etc/own.service"])
    assert {path: (it.package, it.changed) for path, it in found.items()} == {
        UNIT: ("amazon-ecs-init", False),
        "/usr/lib/systemd/system/edited.service": ("amazon-ecs-init", True),
    }


def test_dpkg_here_agrees_with_dpkg_itself() -> None:
    if shutil.which("dpkg") is None:
        pytest.skip("no dpkg on this machine")
    path = "/usr/lib/systemd/system/systemd-journald.service"
    if not Path(path).exists():
        pytest.skip("systemd is not installed")
    assert owners(Host(), [path])[path].package == "systemd"


def blob(name: str, folder: str, base: str) -> bytes:
    """An rpm header with two files, the second one asked for."""
    entries, data = [], b""

    def add(tag: int, kind: int, count: int, value: bytes) -> None:
        nonlocal data
        if kind == 4:
            data += b"\0" * (-len(data) % 4)
        entries.append(struct.pack(">IIII", tag, kind, len(data), count))
        data += value

    add(1000, 6, 1, name.encode() + b"\0")
    add(1001, 6, 1, b"1.79.0\0")
    add(1002, 6, 1, b"1\0")
    add(1116, 4, 2, struct.pack(">II", 0, 1))
    add(1117, 8, 2, b"first\0" + base.encode() + b"\0")
    add(1118, 8, 2, b"/etc/\0" + folder.encode() + b"\0")
    return struct.pack(">II", len(entries), len(data)) + b"".join(entries) + data


def rpm(root: Path, headers: list[tuple[int, bytes]], names: list[tuple[str, int, int]]) -> Host:
    folder = root / "usr/lib/sysimage/rpm"
    folder.mkdir(parents=True)
    connection = sqlite3.connect(folder / "rpmdb.sqlite")
    connection.execute("CREATE TABLE Packages (hnum INTEGER PRIMARY KEY AUTOINCREMENT, blob BLOB NOT NULL)")
    connection.execute("CREATE TABLE Basenames (key TEXT NOT NULL, hnum INTEGER NOT NULL, idx INTEGER NOT NULL)")
    connection.executemany("INSERT INTO Packages VALUES (?, ?)", headers)
    connection.executemany("INSERT INTO Basenames VALUES (?, ?, ?)", names)
    connection.commit()
    connection.close()
    return Host(str(root), live=False)


def test_rpm(tmp_path: Path) -> None:
    other, ecs = blob("other", "/opt/", "ecs.service"), blob("ecs-init", "/usr/lib/systemd/system/", "ecs.service")
    host = rpm(tmp_path, [(1, other), (7, ecs)], [("ecs.service", 1, 1), ("ecs.service", 7, 1), ("ecs.service", 9, 4)])
    found = owners(host, [UNIT, "/usr/lib/systemd/system/none.service"])
    assert {path: it.package for path, it in found.items()} == {UNIT: "ecs-init-1.79.0-1"}


def test_a_damaged_rpm_database_is_told(tmp_path: Path) -> None:
    whole = blob("ecs-init", "/usr/lib/systemd/system/", "ecs.service")
    host = rpm(tmp_path, [(1, whole[:60])], [("ecs.service", 1, 1)])
    with pytest.raises(Unreadable, match="not an rpm database"):
        owners(host, [UNIT])
    (tmp_path / "usr/lib/sysimage/rpm/rpmdb.sqlite").write_bytes(b"SQLite format 3\0" + b"\xff" * 5000)
    with pytest.raises(Unreadable, match="not an rpm database"):
        owners(host, [UNIT])


@pytest.mark.parametrize("length", range(0, 140, 7))
def test_a_header_cut_anywhere_is_an_error_or_nothing(length: int) -> None:
    whole = blob("x", "/y/", "z")
    with pytest.raises((ValueError, struct.error)):
        header(whole[:length])


def test_old_databases_and_none_say_why(tmp_path: Path) -> None:
    with pytest.raises(Unreadable, match="Berkeley DB"):
        owners(machine(tmp_path / "old", {"var/lib/rpm/Packages": ""}), [UNIT])
    with pytest.raises(Unreadable, match="neither a dpkg nor an rpm database"):
        owners(machine(tmp_path / "none", {}), [UNIT])


def test_a_database_that_leads_out_is_refused(tmp_path: Path) -> None:
    outside = rpm(tmp_path / "outside", [], [])
    (tmp_path / "in/var/lib/rpm").mkdir(parents=True)
    (tmp_path / "in/var/lib/rpm/rpmdb.sqlite").symlink_to(f"{outside.root}/usr/lib/sysimage/rpm/rpmdb.sqlite")
    with pytest.raises(Unreadable, match="leads out"):
        owners(Host(str(tmp_path / "in"), live=False), [UNIT])


SPEC = """
Name: zslab-agent
Version: 3
Release: 1
Summary: A package with one unit
License: Apache-2.0
BuildArch: noarch
%description
A package with one unit.
%install
mkdir -p %{buildroot}/usr/lib/systemd/system
echo '[Service]' > %{buildroot}/usr/lib/systemd/system/ecs.service
%files
/usr/lib/systemd/system/ecs.service
"""


def test_a_database_that_rpm_wrote(tmp_path: Path) -> None:
    if shutil.which("rpm") is None or shutil.which("rpmbuild") is None:
        pytest.skip("rpm is not installed: the format is tested above, the program is not")
    (tmp_path / "agent.spec").write_text(SPEC)
    quiet = {"check": True, "capture_output": True}
    subprocess.run(["rpmbuild", "-bb", "-D", f"_topdir {tmp_path}/build", f"{tmp_path}/agent.spec"], **quiet)  # type: ignore[call-overload]
    (package,) = (tmp_path / "build/RPMS/noarch").glob("*.rpm")
    root = tmp_path / "root"
    options = ["--root", str(root), "--dbpath", "/usr/lib/sysimage/rpm", "-D", "_db_backend sqlite"]
    root.mkdir()
    subprocess.run(
        ["rpm", *options, "-i", "--justdb", "--nodeps", "--noscripts", "--force-debian", str(package)], **quiet
    )  # type: ignore[call-overload]
    assert owners(Host(str(root), live=False), [UNIT])[UNIT].package == "zslab-agent-3-1"


def test_a_list_may_say_usr_and_a_file_that_is_gone_is_not_called_changed(tmp_path: Path) -> None:
    host = machine(
        tmp_path,
        {
            f"{INFO}/agent.list": f"{UNIT}\n/usr/share/x\n/lib/gone.service\n/opt/usr/lib/x\n",
            f"{INFO}/agent.md5sums": f"{'0' * 32}  usr/lib/gone.service\n",
            f"{INFO}/agent.postinst": f"{UNIT}\n",
        },
    )
    asked = (UNIT, "/usr/share/x", "/share/x", "/usr/lib/gone.service", "/opt/lib/x", "/lib/x")
    found = owners(host, asked)
    assert set(found) == {UNIT, "/usr/share/x", "/usr/lib/gone.service"}
    assert {it.changed for it in found.values()} == {None} and found[UNIT].source == f"/{INFO}/agent.list"


@pytest.mark.parametrize(("place", "found"), [(0, False), (1, True), (2, False), (-1, False), (9, False)])
def test_the_place_in_a_header_must_be_the_file_s(tmp_path: Path, place: int, found: bool) -> None:
    ecs = blob("ecs-init", "/usr/lib/systemd/system/", "ecs.service")
    host = rpm(tmp_path, [(1, ecs)], [("ecs.service", 1, place)])
    assert bool(owners(host, [UNIT])) == found


def test_the_first_file_of_a_package_counts_too(tmp_path: Path) -> None:
    host = rpm(tmp_path, [(1, blob("etc", "/opt/", "x"))], [("first", 1, 0)])
    assert owners(host, ["/etc/first"])["/etc/first"].source == "$ rpm -qf /etc/first"


def raw(*entries: tuple[int, int, int, int], data: bytes) -> bytes:
    rows = b"".join(struct.pack(">IIII", *entry) for entry in entries)
    return struct.pack(">II", len(entries), len(data)) + rows + data


def test_a_header_s_entries_are_read_up_to_its_very_end_and_never_beyond() -> None:
    numbers = struct.pack(">II", 5, 6)
    assert header(raw((1, 4, 0, 2), data=numbers))[1] == {1: [5, 6]}
    assert header(raw((1, 4, 4, 1), data=numbers))[1] == {1: [6]}
    for beyond in ((1, 4, 0, 3), (1, 4, 8, 1), (1, 4, 5, 1)):
        assert header(raw(beyond, data=numbers)) == ({}, {})
    assert header(raw((1, 6, 0, 1), (2, 8, 2, 2), data=b"a\0b\0c\0"))[0] == {1: ["a"], 2: ["b", "c"]}
    assert header(raw((1, 6, 7, 1), (2, 8, 0, 7), (3, 1, 0, 1), data=b"a\0b\0c\0")) == ({}, {})
    assert header(raw((1, 6, 6, 1), data=b"a\0b\0c\0"))[0] == {1: [""]}
    assert header(raw((1, 8, 0, 6), data=b"a\0b\0c\0"))[0] == {1: ["a", "b", "c", ""]}


def test_a_package_whose_folder_is_not_in_its_header_owns_nothing(tmp_path: Path) -> None:
    names = b"ecs-init\0ecs.service\0/usr/lib/systemd/system/\0" + b"\0" * 3
    end = len(names)
    for index, owned in ((0, True), (1, False)):
        wrong = raw(
            *((1000, 6, 0, 1), (1117, 8, 9, 1), (1118, 8, 21, 1), (1116, 4, end, 1)),
            data=names + struct.pack(">I", index),
        )
        host = rpm(tmp_path / str(index), [(1, wrong)], [("ecs.service", 1, 0)])
        assert {it.package for it in owners(host, [UNIT]).values()} == ({"ecs-init"} if owned else set())
