"""A unit's name alone exempts nothing in an image: the package that owns its file does."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.audit.test_packages import blob, rpm
from tests.conftest import Run
from tests.gate.images import ECS, ETC, LIB, PLAIN, WANTS, clean, judged, objections

LOOPS = "[Service]\nExecStart=/x\nRestart=always\nRestartSec=0.5\n[Unit]\nStartLimitIntervalSec=0\n"


@pytest.mark.parametrize("unit", ["cloud-x-agent", "nvidia-foo", "systemd-helper", "ntp-sync", "cron-job"])
def test_a_name_alone_exempts_nothing(tmp_path: Path, unit: str) -> None:
    name = f"{unit}.service"
    root = clean(tmp_path, {f"{LIB}/{name}": LOOPS}, {f"{WANTS}/{name}": f"/{LIB}/{name}"})
    expected = [("error", f"unit:{name}")]
    told = judged(root, allowed=["nginx.service", "apt-daily.timer"])
    assert objections(told["endless_restart"]) == expected and objections(told["unknown_unit"]) == expected


@pytest.mark.parametrize(
    ("package", "exempt"),
    [
        ("cloud-init", True),
        ("cloud-init-base", True),
        ("cloud-x-agent", False),
        ("datadog-agent", False),
        ("nvidia-foo", False),
    ],
)
def test_the_package_that_owns_the_file_decides(tmp_path: Path, package: str, exempt: bool) -> None:
    name = "cloud-config.service"
    owned = {f"{LIB}/{name}": LOOPS, f"var/lib/dpkg/info/{package}.list": f"/lib/systemd/system/{name}\n"}
    root = clean(tmp_path, owned, {f"{WANTS}/{name}": f"/{LIB}/{name}"})
    assert bool(judged(root)["endless_restart"].objections) != exempt
    (root / f"{ETC}/{name}").write_text(LOOPS)
    assert judged(root)["endless_restart"].objections, "a copy in /etc is no package's"


def test_a_package_of_one_s_own_is_named_in_a_file(zombiescope: Run, tmp_path: Path) -> None:
    """Which packages are the system's is knowledge: a distribution that we do not know adds its own."""
    name = "cloud-config.service"
    owned = {f"{LIB}/{name}": LOOPS, "var/lib/dpkg/info/acme-base.list": f"/lib/systemd/system/{name}\n"}
    root = clean(tmp_path / "root", owned, {f"{WANTS}/{name}": f"/{LIB}/{name}"})
    (tmp_path / "more").mkdir()
    (tmp_path / "more/acme.toml").write_text('[[package]]\npackages = ["acme-*"]\nwhy = "our distribution"\n')
    zombiescope("gate", "--root", str(root), expect=1)
    zombiescope("gate", "--root", str(root), "--knowledge", str(tmp_path / "more"), expect=0)


def test_a_drop_in_of_no_package_takes_the_exemption_away(tmp_path: Path) -> None:
    root = clean(tmp_path)
    assert not judged(root, allowed=["nginx.service", "apt-daily.timer"])["unknown_unit"].objections
    for name, text, judges in (
        ("a", "[Service]\nNice=5\n", False),
        ("b", "[Service]\nExecStartPre=/opt/agent\n", True),
        ("c", "[Service]\nRestart=always\nRestartSec=10\n", True),
    ):
        folder = root / f"{ETC}/ssh.service.d"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir()
        (folder / f"{name}.conf").write_text(text)
        told = judged(root, allowed=["nginx.service", "apt-daily.timer"])["unknown_unit"]
        assert objections(told) == ([("error", "unit:ssh.service")] if judges else [])


def test_a_drop_in_that_is_off_changes_nothing_and_one_that_cannot_be_read_may(tmp_path: Path) -> None:
    root = clean(tmp_path)
    folder = root / f"{ETC}/ssh.service.d"
    folder.mkdir()
    (folder / "off.conf").symlink_to("/dev/null")
    (root / f"{ETC}/service.d").mkdir()
    (root / f"{ETC}/service.d/all.conf").write_text("[Service]\nRestart=always\n")
    allowed = ["nginx.service", "apt-daily.timer"]
    assert not judged(root, allowed=allowed)["unknown_unit"].objections, "what all services get says nothing of one"
    (folder / "folder.conf").mkdir()
    assert objections(judged(root, allowed=allowed)["unknown_unit"]) == [("error", "unit:ssh.service")]


@pytest.mark.parametrize(("package", "exempt"), [("cloud-init", True), ("cloud", False), ("agent-cloud-init", False)])
def test_rpm_names_its_packages_with_their_versions(tmp_path: Path, package: str, exempt: bool) -> None:
    name = "cloud-config.service"
    root = clean(tmp_path, {f"{LIB}/{name}": LOOPS}, {f"{WANTS}/{name}": f"/{LIB}/{name}"})
    shutil.rmtree(root / "var/lib/dpkg")
    rpm(root, [(1, blob(package, f"/{LIB}/", name))], [(name, 1, 1)])
    assert (("error", f"unit:{name}") not in objections(judged(root)["endless_restart"])) == exempt


def test_without_a_package_database_it_is_judged_and_said(tmp_path: Path) -> None:
    root = clean(tmp_path, {f"{LIB}/ssh.service": ECS})
    assert not judged(root)["unread_units"].objections and not judged(root)["endless_restart"].objections
    shutil.rmtree(root / "var/lib/dpkg")
    told = judged(root)
    assert objections(told["unread_units"]) == [("note", "packages")]
    assert "neither a dpkg nor an rpm database" in told["unread_units"].objections[0].says
    assert objections(told["endless_restart"]) == [("note", "unit:ssh.service")]


def test_an_image_without_such_names_needs_no_database(tmp_path: Path) -> None:
    root = clean(tmp_path, {f"{LIB}/nginx.service": PLAIN})
    shutil.rmtree(root / "var/lib/dpkg")
    (root / f"{WANTS}/ssh.service").unlink()
    assert not judged(root)["unread_units"].objections
