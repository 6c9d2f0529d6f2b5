"""Units behind a bus name: they start at a call and not at boot, and that is what is said of them."""

from __future__ import annotations

import tarfile
from pathlib import Path

import pytest
from tests.files import write
from tests.gate.images import LIB, judged, objections
from tests.gate.trees import LEAK, TREES, UNIT, lay_out

from zombiescope.gate._objection import Ruling
from zombiescope.gate._unpacked import root_folder

BUS = "usr/share/dbus-1/system-services"
NOTE = [("note", "unit:ecs.service")]


def named(unit: str) -> str:
    return f"[D-BUS Service]\nName=org.x\nExec=/bin/false\nUser=root\nSystemdService={unit}\n"


def image(folder: Path, files: dict[str, str], links: dict[str, str] | None = None) -> Path:
    return write(lay_out(folder, TREES["debian"]), {f"{LIB}/ecs.service": LEAK, **files}, links or {})


def told(root: Path) -> dict[str, Ruling]:
    return judged(root, allowed=["app.service"])


@pytest.mark.parametrize("folder", ["usr/share", "usr/local/share", "run"])
def test_it_is_a_note_that_says_how_it_is_started(tmp_path: Path, folder: str) -> None:
    found = told(image(tmp_path, {f"{folder}/dbus-1/system-services/org.x.service": named("ecs.service")}))
    for rule in ("endless_restart", "unknown_unit", "agent_without_use"):
        assert objections(found[rule]) == NOTE, rule
        says = found[rule].objections[0].says
        assert says.startswith(f"not started at boot, but at a call over D-Bus (/{folder}/dbus-1/"), says
        assert found[rule].state == "pass"


def test_what_starts_at_boot_anyway_is_judged_as_that(tmp_path: Path) -> None:
    wanted = {f"{LIB}/app.service": f"[Unit]\nWants=ecs.service\n{UNIT}"}
    found = told(image(tmp_path, {**wanted, f"{BUS}/org.x.service": named("ecs.service")}))
    assert objections(found["endless_restart"]) == [("error", "unit:ecs.service")]


def test_by_an_alias_and_from_a_tar(tmp_path: Path) -> None:
    alias = {"etc/systemd/system/dbus-org.x.service": f"/{LIB}/ecs.service"}
    root = image(tmp_path / "root", {f"{BUS}/org.x.service": named("dbus-org.x.service")}, alias)
    with tarfile.open(tmp_path / "root.tar", "w") as tar:
        tar.add(root, ".")
    with root_folder(str(tmp_path / "root.tar")) as unpacked:
        assert objections(told(Path(unpacked))["endless_restart"]) == NOTE


@pytest.mark.parametrize(
    ("files", "links"),
    [
        ({f"{BUS}/org.x.service": "[D-BUS Service]\nName=org.x\nExec=/x\n"}, {}),  # D-Bus runs it itself
        ({f"{BUS}/org.x.service": named("none.service")}, {}),
        ({f"{BUS}/org.x.conf": named("ecs.service")}, {}),
        ({f"{BUS}/org.x.service": named("ecs.service")}, {"etc/systemd/system/ecs.service": "/dev/null"}),
    ],
    ids=["no unit", "no such unit", "not a service", "masked"],
)
def test_what_cannot_be_called_is_not_said(tmp_path: Path, files: dict[str, str], links: dict[str, str]) -> None:
    assert not told(image(tmp_path, files, links))["endless_restart"].objections
