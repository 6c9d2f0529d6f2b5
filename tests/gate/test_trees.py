"""An agent that leaks, planted in every place from which systemd starts units, in trees of several distributions."""

from __future__ import annotations

import shutil
import stat
import subprocess
from pathlib import Path

import pytest
from tests.files import write
from tests.gate.images import LIB, judged, objections
from tests.gate.trees import IDLE, LEAK, PLANTS, TREES, lay_out

from zombiescope.audit.unit_file import KINDS
from zombiescope.audit.unit_files import UnitFiles
from zombiescope.core import Host

FOUND = [("error", "unit:ecs.service")]


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("place", PLANTS)
def test_a_leak_is_found_wherever_it_is_started_from(tmp_path: Path, tree: str, place: str) -> None:
    assert objections(judged(lay_out(tmp_path, TREES[tree], PLANTS[place]))["endless_restart"]) == FOUND


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("place", IDLE)
def test_what_systemd_does_not_start_is_no_objection(tmp_path: Path, tree: str, place: str) -> None:
    if place == "installed only" and tree in ("al2023", "flatcar", "bootc"):
        pytest.skip("a tree that was booted")
    assert not judged(lay_out(tmp_path, TREES[tree], IDLE[place]))["endless_restart"].objections


@pytest.mark.parametrize("tree", TREES)
@pytest.mark.parametrize("folder", ["etc", "etc/rc.d"])
def test_a_timer_of_a_sysv_script(tmp_path: Path, tree: str, folder: str) -> None:
    """A script cannot set Restart=; a drop-in of the service that it becomes can."""
    drop_in = {"etc/systemd/system/ecs.service.d/a.conf": LEAK, f"{folder}/init.d/ecs": "#!/bin/sh\n"}
    root = write(lay_out(tmp_path, TREES[tree]), drop_in, {f"{folder}/rc3.d/S20ecs": "../init.d/ecs"})
    assert not judged(root)["endless_restart"].objections, "not a program, so systemd does not start it"
    script = root / folder / "init.d/ecs"
    script.chmod(script.stat().st_mode | stat.S_IXUSR)
    assert objections(judged(root)["endless_restart"]) == FOUND
    write(root, {"usr/lib/systemd/system-generators/systemd-debug-generator": ""}, {})
    assert not judged(root)["endless_restart"].objections, "this systemd came without the generator for scripts"


@pytest.mark.parametrize("tree", TREES)
def test_defaults_of_the_manager(tmp_path: Path, tree: str) -> None:
    service = {f"{LIB}/app.service": "[Service]\nExecStart=/x\nRestart=always\n"}
    root = write(lay_out(tmp_path, TREES[tree]), service, {})
    assert not judged(root)["endless_restart"].objections
    write(root, {"usr/lib/systemd/system.conf.d/a.conf": "[Manager]\nDefaultRestartSec=7\n"}, {})
    assert objections(judged(root)["endless_restart"]) == [("note", "unit:app.service")]
    write(root, {"etc/systemd/system.conf.d/b.conf": "[Manager]\nDefaultStartLimitIntervalSec=900\n"}, {})
    assert not judged(root)["endless_restart"].objections


def test_a_generator_may_pull_in_a_target(tmp_path: Path) -> None:
    """cloud-init.target is wanted by what its generator writes at boot, and by nothing in the image."""
    root = lay_out(tmp_path, TREES["ubuntu"], IDLE["wanted by a target that nothing pulls in"])
    write(root, {"usr/lib/systemd/system-generators/cloud-init-generator": ""}, {})
    told = judged(root)
    assert objections(told["endless_restart"]) == FOUND
    assert "cloud-init-generator" in told["unread_units"].says


def test_what_a_timer_triggers_goes_with_it_only_under_its_own_name(tmp_path: Path) -> None:
    allowed = ["app.service", "ecs.timer", "x.timer"]
    told = judged(lay_out(tmp_path / "same", TREES["ubuntu"], PLANTS["timer"]), allowed=allowed)
    assert not told["unknown_unit"].objections
    told = judged(lay_out(tmp_path / "other", TREES["ubuntu"], PLANTS["timer of another name"]), allowed=allowed)
    assert objections(told["unknown_unit"]) == FOUND


@pytest.mark.skipif(shutil.which("systemctl") is None, reason="systemctl is not installed")
@pytest.mark.parametrize("tree", TREES)
def test_states_are_those_that_systemctl_reports(tmp_path: Path, tree: str) -> None:
    # systemctl knows .upholds since 254, and what is in /run/systemd/generator is not a file of the tree to it.
    places = [it for name, it in PLANTS.items() if not name.startswith(("generator", ".upholds"))]
    for number, plant in enumerate(places):
        root = lay_out(tmp_path / str(number), TREES[tree], plant)
        argv = ["systemctl", "--root", str(root), "list-unit-files", "--no-legend", "--no-pager", "--plain"]
        said = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
        rows = [line.split() for line in said.splitlines()]
        theirs = {row[0]: row[1] for row in rows if len(row) > 1 and row[0].endswith(KINDS) and row[1] != "alias"}
        files = UnitFiles(Host(str(root), live=False))
        assert {name: files.unit(name).state for name in theirs} == theirs
