"""Images made to mislead: nothing of them is run, nothing outside is read, and what cannot be read is blind."""

from __future__ import annotations

import shlex
import tarfile
from pathlib import Path

import pytest
from tests.cli.gate_reports import gated
from tests.conftest import Run
from tests.files import write
from tests.gate.hostile_files import MAKERS, Maker, fifo, nul, outside, put
from tests.gate.images import ETC, LIB, WANTS, clean, judged, objections
from tests.gate.trees import LEAK, TREES, UNIT, lay_out

from zombiescope.audit import boot
from zombiescope.core import Host
from zombiescope.core.commands import is_unit
from zombiescope.gate._image import Image
from zombiescope.gate._objection import systemctl
from zombiescope.gate._unpacked import root_folder

# Every file that says what starts, or how.
SAYS = {
    "a unit": f"{LIB}/app.service",
    "a target": f"{LIB}/multi-user.target",
    "a unit that only another one pulls in": f"{LIB}/basic.target",
    "a drop-in": f"{LIB}/app.service.d/a.conf",
    "a drop-in of all": f"{ETC}/service.d/a.conf",
    "a preset": "usr/lib/systemd/system-preset/00-a.preset",
    "the manager's settings": "etc/systemd/system.conf",
    "the manager's drop-in": "etc/systemd/system.conf.d/a.conf",
    "machine-id": "etc/machine-id",
}


@pytest.mark.parametrize("says", SAYS)
@pytest.mark.parametrize("make", [it for it in MAKERS if it != nul])
def test_what_says_what_starts_and_cannot_be_read_is_blind(tmp_path: Path, says: str, make: Maker) -> None:
    canary = outside(tmp_path)
    root = lay_out(tmp_path / "root", TREES["bootc"])
    put(root / SAYS[says], make, canary)
    told = judged(root)
    assert not told["endless_restart"].objections, "the file outside was not read"
    assert told["unread_units"].state == "blind", told["unread_units"]


def test_a_unit_that_does_not_start_may_be_anything(tmp_path: Path) -> None:
    root = lay_out(tmp_path, TREES["ubuntu"])
    fifo(root / f"{LIB}/idle.service", root)
    assert judged(root)["unread_units"].state == "pass"


def test_more_names_than_we_list_are_blind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(boot, "MOST_UNITS", 50)  # 20,000 would take ten seconds
    root = lay_out(tmp_path, TREES["ubuntu"])
    for number in range(51):
        (root / LIB / f"{number}.slice").touch()
    told = judged(root)["unread_units"]
    assert told.state == "blind" and told.unseen[0].why == "more than 50 names"


def test_more_units_than_are_followed_are_blind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One file can name thousands of instances of a template, and what comes after them would not be seen."""
    monkeypatch.setattr(boot, "MOST_UNITS", 50)
    crowd = " ".join(f"p@{number}.service" for number in range(60))
    files = {
        f"{LIB}/app.service": f"[Unit]\nWants=last.service {crowd}\n{UNIT}",
        f"{LIB}/last.service": f"[Unit]\nWants=ecs.service\n{UNIT}",
        f"{LIB}/p@.service": UNIT,
        f"{LIB}/ecs.service": LEAK,
    }
    told = judged(write(lay_out(tmp_path, TREES["ubuntu"]), files, {}))
    assert not told["endless_restart"].objections, "or it tests nothing"
    assert [it.why for it in told["unread_units"].unseen] == ["starts more than 50 units"]


NAMES = (
    "a\nb.service",
    "%n%i%%.service",
    "x" * 247 + ".service",
    "-rf.service",
    "--now.service",
    "a;touch gone;$(touch gone)`touch gone`.service",
    "@.service",
    "@@@.service",
    "a@%i@.service",
    ".service",
    "\udcff\x1b[31m.service",
    "é'\"\\.service",
)


@pytest.mark.parametrize("name", NAMES)
def test_names(tmp_path: Path, name: str) -> None:
    root = lay_out(tmp_path, TREES["ubuntu"])
    drop_in = {f"{ETC}/app.service.d/a.conf": f"[Unit]\nWants=%i%z%.service {name.replace(chr(10), ' ')}\n"}
    write(root, {f"{LIB}/{name}": LEAK, **drop_in}, {f"{ETC}/multi-user.target.wants/{name}": f"/{LIB}/{name}"})
    told = judged(root, allowed=["app.service"])
    assert ("error", f"unit:{name}") in objections(told["unknown_unit"])
    assert all(ruling.state != "blind" or ruling.rule in ("cgroup_mode", "leaking_kernel") for ruling in told.values())
    assert "a bug in zombiescope" not in repr(told)


@pytest.mark.parametrize("name", NAMES)
def test_a_fix_is_safe_to_paste(name: str) -> None:
    told = systemctl("disable", name, "--now")
    if told.startswith("no command is given"):
        assert not is_unit(name) and told.isprintable()
        return
    words = shlex.split(told)
    assert words[:3] == ["systemctl", "disable", "--now"] and words[-1] == name
    assert len(words) == 4 or words[3] == "--"
    assert not words[3].startswith("-") or words[3] == "--"


def test_nothing_of_an_image_is_run(zombiescope: Run, tmp_path: Path) -> None:
    gone = tmp_path / "ran"
    script = f"#!/bin/sh\ntouch {gone}\n"
    programs = (
        *("usr/lib/systemd/system-generators/evil-generator", "etc/systemd/system-generators/evil", "etc/init.d/evil"),
        *("usr/bin/systemctl", "usr/bin/dpkg", "usr/bin/rpm", "usr/lib/systemd/systemd"),
    )
    root = clean(tmp_path / "root", dict.fromkeys(programs, script))
    for program in programs:
        (root / program).chmod(0o755)
    write(
        root,
        {f"{LIB}/e.service": f"[Service]\nExecStart=/usr/bin/touch {gone}\n"},
        {f"{WANTS}/e.service": f"/{LIB}/e.service"},
    )
    shape = gated(zombiescope, "--root", str(root), expect=0)
    assert not gone.exists() and "evil-generator" in str(shape["rules"])


def test_wants_that_circle_and_chains_that_are_long(tmp_path: Path) -> None:
    units = {
        f"{LIB}/c{n}.service": f"[Unit]\nWants=c{n + 1}.service c{n // 2}.service app.service\n{UNIT}"
        for n in range(500)
    }
    root = write(
        lay_out(tmp_path, TREES["ubuntu"]), units, {f"{ETC}/app.service.wants/c0.service": f"/{LIB}/c0.service"}
    )
    image = Image(Host(str(root), live=False))
    assert sum(unit.name.startswith("c") for unit in image.starting) == 500


def test_aliases_that_circle(tmp_path: Path) -> None:
    links = {f"{ETC}/a.service": "b.service", f"{ETC}/b.service": "a.service", f"{ETC}/c.service": "c.service"}
    links |= {f"{WANTS}/{name}.service": f"/{ETC}/{name}.service" for name in "abc"}
    told = judged(write(lay_out(tmp_path, TREES["debian"]), {}, links))
    assert "a bug in zombiescope" not in repr(told) and told["unread_units"].state == "blind"


def test_a_script_in_a_tar_keeps_that_it_is_a_program(tmp_path: Path) -> None:
    root = lay_out(tmp_path / "root", TREES["ubuntu"])
    write(
        root,
        {"etc/init.d/ecs": "#!/bin/sh\n", f"{ETC}/ecs.service.d/a.conf": LEAK},
        {"etc/rc3.d/S01ecs": "../init.d/ecs"},
    )
    (root / "etc/init.d/ecs").chmod(0o755)
    with tarfile.open(tmp_path / "root.tar", "w") as tar:
        tar.add(root, ".")
    with root_folder(str(tmp_path / "root.tar")) as unpacked:
        assert objections(judged(Path(unpacked))["endless_restart"]) == [("error", "unit:ecs.service")]
