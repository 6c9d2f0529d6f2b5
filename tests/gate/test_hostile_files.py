"""Every file that the gate and the audit read of an image, as something else: nothing outside is opened or run."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from tests.conftest import Run
from tests.files import write
from tests.gate.hostile_files import CANARY, MAKERS, Maker, folder_leads_out, nul, outside, put, refuse, watched
from tests.gate.images import ETC, LIB, judged
from tests.gate.trees import INSTALL, LEAK, TREES, lay_out

from zombiescope.cli import audit
from zombiescope.core import Host

# By the tree in which somebody reads them: dpkg's database is asked before rpm's.
READ = {
    "a unit": ("ubuntu", f"{LIB}/app.service"),
    "a unit of the administrator": ("ubuntu", f"{ETC}/app.service"),
    "a link that starts it": ("ubuntu", f"{ETC}/multi-user.target.wants/app.service"),
    "a drop-in": ("ubuntu", f"{LIB}/app.service.d/a.conf"),
    "a timer": ("ubuntu", f"{ETC}/timers.target.wants/x.timer"),
    "a preset": ("bootc", "usr/lib/systemd/system-preset/00-a.preset"),
    "the manager's settings": ("ubuntu", "etc/systemd/system.conf"),
    "machine-id": ("ubuntu", "etc/machine-id"),
    "os-release": ("ubuntu", "etc/os-release"),
    "a rule of udev": ("ubuntu", "usr/lib/udev/rules.d/80-x.rules"),
    "a name on the bus": ("ubuntu", "usr/share/dbus-1/system-services/org.x.service"),
    "a script": ("ubuntu", "etc/init.d/ecs"),
    "a link to a script": ("ubuntu", "etc/rc3.d/S01ecs"),
    "a list of dpkg": ("ubuntu", "var/lib/dpkg/info/app.list"),
    "sums of dpkg": ("ubuntu", "var/lib/dpkg/info/app.md5sums"),
    "rpm's database": ("bootc", "usr/share/rpm/rpmdb.sqlite"),
    "the command line": ("ubuntu", "etc/kernel/cmdline"),
    "grub": ("ubuntu", "etc/default/grub"),
    "a boot entry": ("ubuntu", "boot/loader/entries/a.conf"),
    "bootc's arguments": ("bootc", "usr/lib/bootc/kargs.d/10-console.toml"),
    "a unified kernel image": ("bootc", "boot/EFI/Linux/a.efi"),
    "a sign of an agent's use": ("ubuntu", "etc/ecs/ecs.config"),
}
UNREAD = (
    *("a unit", "a unit of the administrator", "a drop-in", "a preset", "the manager's settings", "machine-id"),
    *("a rule of udev", "a name on the bus"),
)


@pytest.mark.parametrize("what", READ)
@pytest.mark.parametrize("make", [*MAKERS, folder_leads_out])
def test_nothing_outside_is_opened_and_nothing_is_run(tmp_path: Path, what: str, make: Maker) -> None:
    tree, place = READ[what]
    canary = outside(tmp_path)
    root = lay_out(tmp_path / "root", TREES[tree])
    write(root, {f"{LIB}/ecs.service": LEAK}, {f"{ETC}/multi-user.target.wants/ecs.service": f"/{LIB}/ecs.service"})
    put(root / place, make, canary)
    with watched() as events:
        told = judged(root, allowed=["app.service"])
        shape = audit.shape(Host(str(root), live=False), every=True)
    refuse(events, root, canary)
    said = repr(told) + json.dumps(shape)
    assert CANARY not in said.replace(str(canary), "") and "a bug in zombiescope" not in said
    assert told["unread_units"].state == "blind" or make is nul or what not in UNREAD


@pytest.mark.parametrize("make", [it for it in MAKERS if it != nul])
def test_the_commands_end_without_a_traceback(zombiescope: Run, tmp_path: Path, make: Maker) -> None:
    """All at once, as a hostile image would have them; the canary's access time shows who opened it."""
    canary = outside(tmp_path)
    root = lay_out(tmp_path / "root", TREES["ubuntu"])
    for tree, place in READ.values():
        if tree == "ubuntu" and not place.endswith((".wants/app.service", "machine-id")):
            put(root / place, make, canary)
    twin = canary.with_name("twin")
    twin.touch()
    for path in (canary, twin):
        os.utime(path, (1e9, time.time()))
    for argv in (("gate", "--format", "json"), ("gate",), ("audit", "--all"), ("audit", "--format", "json")):
        done = zombiescope(*argv, "--root", str(root), cwd=tmp_path, expect=3)
        assert CANARY not in (done.stdout + done.stderr).replace(str(canary), "")
        assert f"{LIB}/app.service" in done.stdout + done.stderr, "what was not read is named"
    twin.read_bytes()
    if twin.stat().st_atime != 1e9:  # this file system keeps access times
        assert canary.stat().st_atime == 1e9


def test_what_ends_a_line_for_systemd_hides_no_setting(tmp_path: Path) -> None:
    """`systemd-analyze verify` shows it: a NUL or a carriage return ends a line as a line feed does."""
    for number, end in enumerate(("\0", "\r", "\r\n", "\0\n")):
        unit = "\ufeff[Unit]\nDescription=x" + end + LEAK.replace("\n", end)
        preset = "enable none" + end + "enable hidden.service" + end + "disable *"
        root = lay_out(tmp_path / str(number), TREES["bootc"])
        write(root, {f"{LIB}/hidden.service": unit + INSTALL, "usr/lib/systemd/system-preset/00-a.preset": preset}, {})
        found = judged(root)["endless_restart"].objections
        assert [it.subject for it in found] == ["unit:hidden.service"], repr(end)
