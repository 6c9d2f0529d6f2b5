"""The ledger tells what was begun and what was done, also after a crash."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from zombiescope.core import UserError
from zombiescope.treatment.ledger import Ledger

PLAN = {"name": "stop_it", "cures": {"sign": "z", "subject": "unit:x", "says": ""}, "steps": []}


def test_a_fix_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    with ledger.locked():
        ledger.write("1", "planned", plan=PLAN)
        ledger.write("1", "begins", step=0, before={"files": {}})
        assert ledger.fix("1").state == "interrupted"
        ledger.write("1", "done", step=0)
        ledger.write("1", "finished")
    (fix,) = Ledger(str(tmp_path)).fixes()
    assert fix.state == "finished" and fix.plan == PLAN and set(fix.steps()[0]) == {"begins", "done"}
    assert ledger.next_id() == "2"


def test_how_it_was_is_told_by_the_first_beginning(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    with ledger.locked():
        ledger.write("1", "planned", plan=PLAN)
        ledger.write("1", "begins", step=0, before="as it was")
        ledger.write("1", "begins", step=0, before="touched")
    assert ledger.fix("1").steps()[0]["begins"]["before"] == "as it was"


@pytest.mark.parametrize("torn", range(1, 40, 7))
def test_a_line_that_a_crash_tore_is_no_line_and_hides_no_other(tmp_path: Path, torn: int) -> None:
    ledger = Ledger(str(tmp_path))
    with ledger.locked():
        ledger.write("1", "planned", plan=PLAN)
        whole = Path(ledger.path).read_bytes()
        Path(ledger.path).write_bytes(whole + whole[:torn])
        ledger.write("1", "finished")
    assert ledger.fix("1").state == "finished"


def test_garbage_in_the_ledger_is_passed_over(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    Path(ledger.path).write_bytes(b'\xff\xfe\n[]\n{"fix": "x"}\n{"fix": "7", "at": 1, "event": "done"}\nnull\n')
    assert ledger.fixes() == []
    with pytest.raises(UserError, match="there is none yet"):
        ledger.fix("7")


def test_one_fix_at_a_time_and_the_other_is_named(tmp_path: Path) -> None:
    code = (
        "import sys; from zombiescope.treatment.ledger import Ledger\n"
        "with Ledger(sys.argv[1]).locked():\n  print('locked', flush=True); sys.stdin.read()"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None and other.stdout.readline() == "locked\n"
        with pytest.raises(UserError, match=f"process {other.pid}"), Ledger(str(tmp_path)).locked():
            pass
        other.communicate("")
    with Ledger(str(tmp_path)).locked():
        assert Path(tmp_path / "fixes.lock").exists()


def test_nobody_writes_without_the_lock(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        Ledger(str(tmp_path)).write("1", "planned")
