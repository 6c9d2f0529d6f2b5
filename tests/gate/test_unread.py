"""Links and files that the gate does not follow or cannot read: which are blind, and which mean nothing."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from dbus_fast import Variant
from tests.audit.spoken_systemd import Says, speaking
from tests.gate.images import LIB, PLAIN, clean

from zombiescope.audit.systemd import ANOTHER_BUS
from zombiescope.core import Host
from zombiescope.gate import _image
from zombiescope.gate._image import Image


def image(root: Path) -> Image:
    return Image(Host(str(root), live=False))


def unread(root: Path) -> dict[str, str]:
    return {it.source: it.why for it in image(root).unread_units()}


@pytest.mark.parametrize(
    ("target", "blind"),
    [
        ("/opt/agent/real.service", True),  # another name, outside: neither an alias nor read
        ("/opt/agent/odd.service", False),
        (f"/{LIB}/nginx.service", False),
        ("nginx.service", False),
        ("/dev/null", False),
        ("/dev/zero", True),
    ],
)
def test_a_unit_that_links_to_another_name_outside_is_blind(tmp_path: Path, target: str, blind: bool) -> None:
    root = clean(
        tmp_path, {f"opt/agent/{name}.service": PLAIN for name in ("real", "odd")}, {f"{LIB}/odd.service": target}
    )
    assert (f"/{LIB}/odd.service" in unread(root)) == blind
    if blind:
        assert unread(root)[f"/{LIB}/odd.service"] == "a link to a file of another name, outside the unit folders"


def test_whether_presets_apply_depends_on_the_machine_id(tmp_path: Path) -> None:
    root = clean(tmp_path)
    assert unread(root) == {}
    (root / "etc/machine-id").unlink()
    assert unread(root) == {}, "a first boot"
    (root / "etc/machine-id").mkdir()
    assert set(unread(root)) == {"/etc/machine-id"}


def test_a_folder_that_leads_to_nothing_is_blind_unless_what_it_leads_to_is_there_and_empty(tmp_path: Path) -> None:
    root = clean(tmp_path)
    (root / "usr/local").mkdir()
    (root / "usr/local/lib").symlink_to("/opt/lib")
    systemd = {f"/usr/local/lib/systemd{it}" for it in ("", "/system", "/system-preset", "/system.conf.d")}
    rules = {"/usr/local/lib/udev/rules.d"}
    assert set(unread(root)) == systemd | rules
    (root / "opt/lib/systemd").mkdir(parents=True)
    assert set(unread(root)) == rules, "it is there, and has no units"
    (root / "opt/lib/udev").mkdir()
    assert unread(root) == {}


@pytest.mark.parametrize(("links", "followed"), [(1, True), (40, True), (41, False)])
def test_as_many_links_are_followed_as_the_kernel_would(tmp_path: Path, links: int, followed: bool) -> None:
    for number in range(links):
        (tmp_path / f"l{number}").symlink_to(f"l{number + 1}" if number < links - 1 else "/end/../other")
    assert image(tmp_path)._resolved("/l0/x") == ("/other/x" if followed else "/l0/x")
    (tmp_path / "round").symlink_to("/round")
    assert image(tmp_path)._resolved("/round") == "/round"
    assert image(tmp_path)._resolved("/plain/path") == "/plain/path"


def test_a_link_never_leads_above_the_root(tmp_path: Path) -> None:
    (tmp_path / "up").symlink_to("../../../etc")
    assert image(tmp_path)._resolved("/up/x") == "/etc/x"


@pytest.mark.skipif(shutil.which("dbus-daemon") is None, reason="dbus-daemon is not installed")
def test_a_running_machine_is_read_twice_so_that_restarts_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = clean(tmp_path / "root", {"proc/self/mountinfo": ""})
    monkeypatch.setattr(_image, "AGAIN", 0.01)
    units = {"x.service": Says(properties={"NRestarts": [Variant("u", 8), Variant("u", 9)]})}
    with speaking(tmp_path, units) as address:
        monkeypatch.setenv(ANOTHER_BUS, address)
        look = Image(Host(str(root), live=True))
        assert [it.unit for it in look.survey.rows if it.restarting] == ["x.service"]
        assert look.occasion == "look" and "x.service" in look.installed
