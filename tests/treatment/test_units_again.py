"""What ran before a fix runs again after undo, and nothing else is started: with a systemctl that is a small script."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.treatment.killed_at_a_step import MACHINE, plan, tell

from zombiescope.core import Step
from zombiescope.treatment.apply import apply, resume, undo
from zombiescope.treatment.ledger import Ledger

# Keeps the state of each unit in a file, and notes what it was told.
SYSTEMCTL = """#!/bin/sh
cd "$(dirname "$0")"; echo "$*" >> told; verb=$1
for unit; do :; done
case $verb in
show) echo "ActiveState=$(cat "$unit" || echo inactive)"; echo SubState=x ;;
stop) echo inactive > "$unit" ;;
start) echo active > "$unit" ;;
esac
"""


@pytest.fixture
def units(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "systemctl").write_text(SYSTEMCTL)
    (folder / "systemctl").chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")
    return folder


def stop(unit: str) -> Step:
    return Step(says=f"stop {unit}", argv=("systemctl", "stop", "--", unit), unit=unit)


def starts(units: Path) -> list[str]:
    return [line for line in (units / "told").read_text().splitlines() if line.startswith("start")]


@pytest.mark.parametrize(
    ("unit", "was", "started"),
    [
        ("zslab-x.service", "active", True),
        ("zslab-x.service", "activating", True),
        ("zslab-x.service", "reloading", True),
        ("zslab-x.service", "inactive", False),
        ("zslab-x.service", "failed", False),
        ("zslab-x.scope", "active", False),  # only who made a scope can start it
    ],
)
def test_undo_starts_what_ran(tmp_path: Path, units: Path, unit: str, was: str, started: bool) -> None:
    (units / unit).write_text(f"{was}\n")
    ledger = Ledger(str(tmp_path / "ledger"))
    fix = apply(plan(stop(unit), stop(unit)), MACHINE, ledger, tell)
    assert (units / unit).read_text() == "inactive\n"
    assert undo(fix.id, MACHINE, ledger, tell).state == "undone"
    assert starts(units) == ([f"start --no-block -- {unit}"] if started else [])


def test_what_runs_again_already_is_not_started_twice(tmp_path: Path, units: Path) -> None:
    unit = "zslab-x.service"
    (units / unit).write_text("active\n")
    ledger = Ledger(str(tmp_path / "ledger"))
    fix = apply(plan(stop(unit)), MACHINE, ledger, tell)
    (units / unit).write_text("activating\n")
    undo(fix.id, MACHINE, ledger, tell)
    assert starts(units) == []


def test_a_scope_before_the_service_does_not_keep_it_stopped(tmp_path: Path, units: Path) -> None:
    for unit in ("zslab-x.scope", "zslab-x.service"):
        (units / unit).write_text("active\n")
    ledger = Ledger(str(tmp_path / "ledger"))
    fix = apply(plan(stop("zslab-x.scope"), stop("zslab-x.service")), MACHINE, ledger, tell)
    undo(fix.id, MACHINE, ledger, tell)
    assert starts(units) == ["start --no-block -- zslab-x.service"]


def test_what_is_done_or_undone_is_neither_resumed_nor_undone_again(tmp_path: Path, units: Path) -> None:
    from zombiescope.core import UserError

    (units / "zslab-x.service").write_text("active\n")
    ledger = Ledger(str(tmp_path / "ledger"))
    fix = apply(plan(stop("zslab-x.service")), MACHINE, ledger, tell)
    with pytest.raises(UserError, match="is finished: nothing to resume"):
        resume(fix.id, MACHINE, ledger, tell)
    undo(fix.id, MACHINE, ledger, tell)
    with pytest.raises(UserError, match="is already undone"):
        undo(fix.id, MACHINE, ledger, tell)
    with pytest.raises(UserError, match="is undone: nothing to resume"):
        resume(fix.id, MACHINE, ledger, tell)
