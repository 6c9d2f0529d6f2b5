"""What ran before a fix runs again after undo, and nothing else is started: with a systemctl that is a small script."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.treatment.killed_at_a_step import plan, tell

from zombiescope.core import Host, Step, Unreadable
from zombiescope.treatment.apply import Machine, apply, resume, undo
from zombiescope.treatment.ledger import Ledger

pytestmark = pytest.mark.usefixtures("cure")
# Keeps the state of each unit in a file, and notes what it was told.
SYSTEMCTL = """#!/bin/sh
cd "$(dirname "$0")"; echo "$*" >> told; verb=$1
for unit; do :; done
case $verb in
show) cat loaded || { echo Transient=no; echo "FragmentPath=/usr/lib/systemd/system/$unit"; }
  echo "ActiveState=$(cat "$unit" || echo inactive)"; echo SubState=x ;;
stop) echo inactive > "$unit" ;;
start) echo active > "$unit" ;;
esac
"""


@pytest.fixture
def units(tmp_path: Path) -> Path:
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "systemctl").write_text(SYSTEMCTL)
    (folder / "systemctl").chmod(0o755)
    return folder


def machine(units: Path) -> Machine:
    """Commands are found in a fixed PATH, whatever ours is: this one is set for the system of the units alone."""
    return Machine(Host(), Host(enter=("env", f"PATH={units}:/usr/bin:/bin")))


def stop(unit: str) -> Step:
    return Step(says=f"stop {unit}", argv=("systemctl", "stop", "--", unit), unit=unit)


def starts(units: Path) -> list[str]:
    return [line for line in (units / "told").read_text().splitlines() if line.startswith("start")]


@pytest.mark.parametrize(
    ("was", "started"),
    [("active", True), ("activating", True), ("reloading", True), ("inactive", False), ("failed", False)],
)
def test_undo_starts_what_ran(tmp_path: Path, units: Path, was: str, started: bool) -> None:
    unit = "zslab-x.service"
    (units / unit).write_text(f"{was}\n")
    ledger = Ledger(str(tmp_path / "ledger"))
    fix = apply(plan(stop(unit), stop(unit)), machine(units), ledger, tell)
    assert (units / unit).read_text() == "inactive\n"
    assert undo(fix.id, machine(units), ledger, tell).state == "undone"
    assert starts(units) == ([f"start --no-block -- {unit}"] if started else [])


def test_what_runs_again_already_is_not_started_twice(tmp_path: Path, units: Path) -> None:
    unit = "zslab-x.service"
    (units / unit).write_text("active\n")
    ledger = Ledger(str(tmp_path / "ledger"))
    fix = apply(plan(stop(unit)), machine(units), ledger, tell)
    (units / unit).write_text("activating\n")
    undo(fix.id, machine(units), ledger, tell)
    assert starts(units) == []


def test_a_scope_before_the_service_does_not_keep_it_stopped(tmp_path: Path, units: Path) -> None:
    """Only who made a scope can start it."""
    for unit in ("zslab-x.scope", "zslab-x.service"):
        (units / unit).write_text("active\n")
    ledger = Ledger(str(tmp_path / "ledger"))
    fix = apply(plan(stop("zslab-x.scope"), stop("zslab-x.service")), machine(units), ledger, tell)
    undo(fix.id, machine(units), ledger, tell)
    assert starts(units) == ["start --no-block -- zslab-x.service"]


def test_what_is_done_or_undone_is_neither_resumed_nor_undone_again(tmp_path: Path, units: Path) -> None:
    from zombiescope.core import UserError

    (units / "zslab-x.service").write_text("active\n")
    ledger = Ledger(str(tmp_path / "ledger"))
    fix = apply(plan(stop("zslab-x.service")), machine(units), ledger, tell)
    with pytest.raises(UserError, match="is finished: nothing to resume"):
        resume(fix.id, machine(units), ledger, tell)
    undo(fix.id, machine(units), ledger, tell)
    with pytest.raises(UserError, match="is already undone"):
        undo(fix.id, machine(units), ledger, tell)
    with pytest.raises(UserError, match="is undone: nothing to resume"):
        resume(fix.id, machine(units), ledger, tell)


@pytest.mark.parametrize(
    ("transient", "path", "refused"),
    [
        ("no", "/usr/lib/systemd/system/zslab-x.service", False),
        ("no", "/etc/systemd/system/zslab-x.service", False),
        ("yes", "/usr/lib/systemd/system/zslab-x.service", True),
        ("no", "/run/systemd/generator/zslab-x.service", True),
        ("no", "/run/systemd/transient/zslab-x.service", True),
        ("yes", "", True),
    ],
)
def test_what_is_generated_is_refused_before_anything_is_done(
    tmp_path: Path, units: Path, transient: str, path: str, refused: bool
) -> None:
    (units / "loaded").write_text(f"Transient={transient}\nFragmentPath={path}\n")
    (units / "zslab-x.service").write_text("active\n")
    ledger = Ledger(str(tmp_path / "ledger"))
    if not refused:
        assert apply(plan(stop("zslab-x.service")), machine(units), ledger, tell).state == "finished"
        return
    with pytest.raises(Unreadable, match="is generated: change what generates it"):
        apply(plan(stop("zslab-x.service")), machine(units), ledger, tell)
    assert ledger.fixes() == [] and (units / "zslab-x.service").read_text() == "active\n"
