"""Every step that a remedy makes, and every state that is kept for it, is known again when the ledger is read."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from zombiescope.core import Host, Step, UserError
from zombiescope.core.forms import NIC, PATH, SCOPE, SERVICE, Form
from zombiescope.treatment.apply import _kept
from zombiescope.treatment.kept import RUNLEVELS, TOPS
from zombiescope.treatment.ledger import Ledger
from zombiescope.treatment.own_steps import refuse_forged

UNIT = "zslab-x.service"
STOP = Step(says="stop", argv=("systemctl", "stop", "--", UNIT), unit=UNIT)


def written(folder: Path, step: Step, files: dict[str, Any], remedy: str) -> Ledger:
    """A ledger of one finished fix, as `apply` writes it."""
    cures = {"sign": "z", "subject": "unit:x", "says": ""}
    plan = {"name": remedy, "cures": cures, "risk": "safe", "proof": [], "steps": [dataclasses.asdict(step)]}
    ledger = Ledger(str(folder))
    with ledger.locked():
        ledger.write("1", "planned", plan=plan, who={"user": "root"})
        ledger.write("1", "begins", step=0, before={"files": files, "runs": "", "disables": None}, command="x")
        ledger.write("1", "done", step=0, after={"files": files}, said="")
        ledger.write("1", "finished")
    return ledger


def a_node(root: Path) -> Host:
    """Units, drop-ins, folders in them, links of every kind, and what is neither."""
    for top in TOPS:
        folder = root / top[1:]
        (folder / f"{UNIT}.d" / "deep").mkdir(parents=True)
        (folder / f"{UNIT}.d" / "a b.conf").write_text("x")
        (folder / f"{UNIT}.d" / "deep" / "..conf").write_text("x")
        (folder / UNIT).write_text("[Unit]")
        (folder / "other.service").write_text("[Unit]")
        (folder / "other.service.d").mkdir()
        (folder / "masked.service").symlink_to("/dev/null")
        (folder / "basic.target.wants").mkdir()
        (folder / "basic.target.wants" / UNIT).symlink_to(f"../{UNIT}")
        (folder / "basic.target.wants" / "a file").write_text("x")
    for folder_name in RUNLEVELS:
        (root / folder_name[1:]).mkdir(parents=True)
        (root / folder_name[1:] / "S01x").symlink_to("../init.d/x")
    return Host(str(root), live=False)


def test_what_is_kept_of_a_real_node_may_be_restored(tmp_path: Path) -> None:
    files = _kept(a_node(tmp_path / "root"), STOP)
    kinds = {state["kind"] for state in files.values()}
    assert {"file", "folder", "link"} <= kinds and len(files) > 20
    ledger = written(tmp_path / "ledger", STOP, files, "stop_leaking_unit")
    refuse_forged(ledger.fix("1"), ledger.path)


@pytest.mark.parametrize("unit", ["y.service", "zslab-y.service", "zslab-x.socket"])
def test_the_same_files_are_not_those_of_another_unit(tmp_path: Path, unit: str) -> None:
    files = _kept(a_node(tmp_path / "root"), STOP)
    ledger = written(tmp_path / "ledger", STOP, files, "stop_leaking_unit")
    text = Path(ledger.path).read_text().splitlines()
    text[0] = text[0].replace(UNIT, unit)
    Path(ledger.path).write_text("\n".join(text) + "\n")
    with pytest.raises(UserError, match=r"line [12]: step 1 (does not change|is not one that)"):
        refuse_forged(ledger.fix("1"), ledger.path)


SETTING = "/proc/irq/40/smp_affinity_list"
MOVE = Step(says="move", argv=("tee", SETTING), stdin="3\n", keeps=(SETTING,))


@pytest.mark.parametrize(
    ("path", "state", "fits"),
    [
        (SETTING, {"kind": "setting", "content": "MA=="}, True),
        (SETTING, {"kind": "absent"}, True),
        (SETTING, {"kind": "file", "content": "", "mode": 0o644, "uid": 0, "gid": 0}, False),
        (f"{SETTING}x", {"kind": "setting", "content": "MA=="}, False),
        (f"{SETTING}/../../1/smp_affinity", {"kind": "setting", "content": "MA=="}, False),
        (f"{TOPS[0]}/masked.service", {"kind": "link", "to": "/dev/null"}, False),
    ],
)
def test_a_setting_is_restored_only_where_the_step_wrote(
    tmp_path: Path, path: str, state: dict[str, Any], fits: bool
) -> None:
    ledger = written(tmp_path, MOVE, {path: state}, "move_irq_off_core")
    if fits:
        refuse_forged(ledger.fix("1"), ledger.path)
    else:
        with pytest.raises(UserError, match="line 2: step 1 does not change"):
            refuse_forged(ledger.fix("1"), ledger.path)


def test_a_fix_that_blocks_others_can_be_given_up_and_one_that_does_not_need_not(tmp_path: Path) -> None:
    ledger = written(tmp_path, dataclasses.replace(STOP, argv=("true",)), {}, "stop_leaking_unit")
    with pytest.raises(UserError) as finished:
        refuse_forged(ledger.fix("1"), ledger.path)
    lines = Path(ledger.path).read_text().splitlines()
    Path(ledger.path).write_text("\n".join(lines[:2]) + "\n")
    with pytest.raises(UserError, match="--abandon 1 --why TEXT") as interrupted:
        refuse_forged(ledger.fix("1"), ledger.path)
    assert "--abandon" not in str(finished.value) and "line 1: step 1 is not one" in str(interrupted.value)


@pytest.mark.parametrize(
    ("pattern", "fits", "not_fits"),
    [
        (
            SERVICE,
            ["a.service", "a@b.service", r"a\x2d.service"],
            ["a.socket", "a b.service", "a;b.service", "é.service"],
        ),
        (SCOPE, ["run-r1.scope"], ["a.scope.d", "a/b.scope", "a.scope\n"]),
        (NIC, ["eth0", "a.b", "eth0.100", "..x"], [".", "..", "a/b", "a b", "x" * 16, "", "a\x01"]),
        (PATH, ["/a", "/a/..b", "/a/b c"], ["a", "/", "/a/", "/a/../b", "/..", "/.", "/a//b", "/a\n"]),
    ],
)
def test_what_varies_in_a_form(pattern: str, fits: list[str], not_fits: list[str]) -> None:
    form = Form(argv=("x", "{it}"), undo=("y", "{it}"), varies={"it": pattern})
    known = {it: form.fits(Step(says="", argv=("x", it), undo=("y", it))) for it in (*fits, *not_fits)}
    assert known == dict.fromkeys(fits, True) | dict.fromkeys(not_fits, False), json.dumps(known)
    assert not form.fits(Step(says="", argv=("x", fits[0]), undo=("y", fits[0] + "1"))), "the same name, the same text"
    assert not form.fits(Step(says="", argv=("x", fits[0])))
    assert not form.fits(Step(says="", argv=("x", fits[0], "z"), undo=("y", fits[0])))
