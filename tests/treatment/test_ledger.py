"""The ledger tells what was begun and what was done, also after a crash."""

from __future__ import annotations

import os
import pwd
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zombiescope.core import Unreadable, UserError
from zombiescope.treatment.ledger import Ledger, who

STEP = {"says": "", "argv": ["true"], "stdin": "", "undo": [], "unit": "", "keeps": [], "risk": ""}
CURES = {"sign": "z", "subject": "unit:x", "says": ""}
PLAN = {"name": "stop_it", "cures": CURES, "risk": "safe", "proof": [], "steps": [STEP, STEP]}
ROOT = {"user": "root"}
BEFORE = {"files": {}, "runs": "", "disables": []}


def test_a_fix_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    with ledger.locked():
        ledger.write("1", "planned", plan=PLAN, who=ROOT)
        ledger.write("1", "begins", step=0, before=BEFORE)
        assert ledger.fix("1").state == "interrupted"
        ledger.write("1", "done", step=0, after={"files": {}})
        ledger.write("1", "finished")
    assert all(Path(ledger.path).read_bytes().split(b"\n")[:-1]), "one line an event, none of them empty"
    (fix,) = Ledger(str(tmp_path)).fixes()
    assert fix.state == "finished" and fix.plan == PLAN and set(fix.steps()[0]) == {"begins", "done"}
    assert ledger.next_id() == "2"


def test_how_it_was_is_told_by_the_first_beginning(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    with ledger.locked():
        ledger.write("1", "planned", plan=PLAN, who=ROOT)
        ledger.write("1", "begins", step=0, before=BEFORE)
        ledger.write("1", "begins", step=0, before=BEFORE | {"runs": "touched"})
    assert ledger.fix("1").steps()[0]["begins"]["before"] == BEFORE


def test_a_step_that_failed_before_it_began_begins_when_it_is_tried_again(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    with ledger.locked():
        ledger.write("1", "planned", plan=PLAN, who=ROOT)
        ledger.write("1", "failed", step=0, why="what it changes cannot be read")
        assert ledger.fix("1").steps() == {}
        ledger.write("1", "resumed")
        ledger.write("1", "begins", step=0, before=BEFORE)
    assert ledger.fix("1").steps()[0]["begins"]["before"] == BEFORE


@pytest.mark.parametrize("torn", range(1, 40, 7))
def test_a_line_that_a_crash_tore_is_no_line_and_hides_no_other(tmp_path: Path, torn: int) -> None:
    ledger = Ledger(str(tmp_path))
    with ledger.locked():
        ledger.write("1", "planned", plan=PLAN, who=ROOT)
        whole = Path(ledger.path).read_bytes()
        Path(ledger.path).write_bytes(whole + whole[:torn])
        ledger.write("1", "finished")
    assert ledger.fix("1").state == "finished"


def test_what_is_no_json_was_torn_and_is_passed_over(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    Path(ledger.path).write_bytes(b'\xff\xfe\n\n{"fix": "x"\n\0\0\0\n')
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


def test_what_a_killed_fix_was_starting_is_waited_for(tmp_path: Path) -> None:
    """A fork of it holds the lock until it executes its program."""
    program = (
        "import os, sys, time; from zombiescope.treatment.ledger import Ledger\n"
        "with Ledger(sys.argv[1]).locked():\n"
        "    if os.fork(): os.kill(os.getpid(), 9)\n"
        "    time.sleep(0.5); os._exit(0)"
    )
    killed = subprocess.run([sys.executable, "-c", program, str(tmp_path)], check=False)
    assert killed.returncode < 0
    began = time.monotonic()
    with Ledger(str(tmp_path)).locked():
        assert time.monotonic() - began > 0.2, "or it tests nothing"


def test_nobody_writes_without_the_lock(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError):
        Ledger(str(tmp_path)).write("1", "planned")
    ledger = Ledger(str(tmp_path))
    with ledger.locked():
        ledger.write("1", "planned", plan=PLAN, who=ROOT)
    with pytest.raises(RuntimeError):
        ledger.write("1", "finished")


def test_what_is_written_is_private_and_says_when_and_by_whom(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SUDO_USER", "alice")
    monkeypatch.setattr(sys, "argv", ["zombiescope", *("x" * 60)])
    ledger, began = Ledger(str(tmp_path / "deep/folder")), time.time()
    with ledger.locked():
        ledger.write("1", "planned", plan=PLAN, who=who())
    assert stat.S_IMODE(os.stat(ledger.path).st_mode) == 0o600
    assert stat.S_IMODE(os.stat(f"{ledger.folder}/fixes.lock").st_mode) == 0o600
    assert stat.S_IMODE(os.stat(ledger.folder).st_mode) == 0o700
    (event,) = ledger.fix("1").events
    assert began <= event["at"] <= time.time()
    by = event["who"]
    assert (by["user"], by["for"], by["pid"]) == (pwd.getpwuid(os.getuid()).pw_name, "alice", os.getpid())
    assert by["argv"] == ["zombiescope", *("x" * 49)]


def test_where_it_is(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("ZOMBIESCOPE_LEDGER", raising=False)
    assert Ledger().path == "/var/lib/zombiescope/fixes.jsonl"
    monkeypatch.setenv("ZOMBIESCOPE_LEDGER", "/elsewhere")
    assert Ledger().path == "/elsewhere/fixes.jsonl"
    assert Ledger(str(tmp_path)).path == f"{tmp_path}/fixes.jsonl"


def test_a_proof_is_no_part_of_the_state_and_a_step_that_is_undone_is_no_step(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    with ledger.locked():
        ledger.write("1", "planned", plan=PLAN, who=ROOT)
        for step in (0, 1):
            ledger.write("1", "begins", step=step, before=BEFORE)
        ledger.write("1", "failed", step=1, why="no space")
        how = {"window": 1.0, "hz": 0, "settings": [], "cured": [], "signs": [], "fixes": ["1"]}
        ledger.write("1", "proving", folder="20260101T000000Z-1", until=1, **how)
        ledger.write("1", "proved", state="proved", checks=[])
        assert (ledger.fix("1").state, ledger.fix("1").why) == ("failed", "no space")
        ledger.write("1", "step undone", step=1)
        assert set(ledger.fix("1").steps()) == {0} and ledger.fix("1").state == "interrupted"
        ledger.write("1", "step undone", step=0)
        ledger.write("1", "undone")
    assert ledger.fix("1").steps() == {} and (ledger.fix("1").state, ledger.fix("1").why) == ("undone", "")


def test_the_next_number_is_above_the_highest(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    assert ledger.next_id() == "1"
    with ledger.locked():
        ledger.write("9", "planned", plan=PLAN, who=ROOT)
        ledger.write("10", "planned", plan=PLAN, who=ROOT)
        ledger.write("3", "planned", plan=PLAN, who=ROOT)
    assert [fix.id for fix in ledger.fixes()] == ["9", "10", "3"] and ledger.next_id() == "11"


def test_a_ledger_that_cannot_be_written_or_read_says_so(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    os.mkdir(ledger.path)
    with ledger.locked(), pytest.raises(Unreadable, match="not begun, and changed nothing"):
        ledger.write("1", "planned", plan=PLAN, who=ROOT)
    with pytest.raises(Unreadable, match="not a regular file"):
        ledger.fixes()
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="--ledger"), Ledger(f"{tmp_path}/file/x").locked():
        pass
