"""Plans are carried out step by step and taken back byte for byte, also after a kill at any step."""

from __future__ import annotations

import json
import os
import resource
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.conftest import PROJECT
from tests.treatment.killed_at_a_step import MACHINE, plan, tell

from zombiescope.core import Step, Unreadable, UserError
from zombiescope.treatment.apply import abandon, apply, resume, undo
from zombiescope.treatment.ledger import Ledger

pytestmark = pytest.mark.usefixtures("cure")


def writing(path: Path, text: str, risk: str = "") -> Step:
    return Step(says=f"write {text}", argv=("tee", str(path)), stdin=text, keeps=(str(path),), risk=risk)


@contextmanager
def size_limit(most: int) -> Iterator[None]:
    """No file can grow beyond so many bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(str(tmp_path / "ledger"))


def test_steps_are_done_in_turn_and_taken_back_in_the_other(tmp_path: Path, ledger: Ledger) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    one.write_bytes(b"\xff as it was")
    one.chmod(0o640)
    told: list[str] = []
    fix = apply(plan(writing(one, "1"), writing(two, "2"), writing(one, "3")), MACHINE, ledger, told.append)
    assert (fix.state, one.read_text(), two.read_text()) == ("finished", "3", "2")
    assert "step 2 of 3: write 2" in told
    assert undo(fix.id, MACHINE, ledger, tell).state == "undone"
    assert one.read_bytes() == b"\xff as it was" and one.stat().st_mode & 0o777 == 0o640 and not two.exists()


def test_what_disrupts_is_left_out_unless_allowed_and_advice_is_never_done(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "x"
    both = plan(Step(says="think first"), writing(path, "safe"), writing(path, "harsh", "disruptive"))
    apply(both, MACHINE, ledger, tell)
    assert path.read_text() == "safe"
    apply(both, MACHINE, ledger, tell, disruptive=True)
    assert path.read_text() == "harsh"


def test_the_first_failure_ends_it_and_both_ways_are_open(tmp_path: Path, ledger: Ledger) -> None:
    gate, path = tmp_path / "gate", tmp_path / "x"
    failing = Step(says="pass the gate", argv=("test", "-e", str(gate)))
    with pytest.raises(Unreadable, match="exit code 1"):
        apply(plan(writing(path, "1"), failing, writing(path, "2")), MACHINE, ledger, tell)
    assert ledger.fix("1").state == "failed" and path.read_text() == "1"
    with pytest.raises(UserError, match="--resume 1 or --undo 1"):
        apply(plan(writing(path, "9")), MACHINE, ledger, tell)
    gate.touch()
    assert resume("1", MACHINE, ledger, tell).state == "finished" and path.read_text() == "2"
    undo("1", MACHINE, ledger, tell)
    assert not path.exists()


def test_a_fix_that_can_neither_go_on_nor_back_is_abandoned_and_the_next_one_runs(
    tmp_path: Path, ledger: Ledger
) -> None:
    path = tmp_path / "x"
    stuck = Step(says="never", argv=("false",), undo=("false",))
    with pytest.raises(Unreadable):
        apply(plan(writing(path, "1"), stuck), MACHINE, ledger, tell)
    for act in (resume, undo):
        with pytest.raises(Unreadable):
            act("1", MACHINE, ledger, tell)
    with pytest.raises(UserError, match="--abandon 1 --why TEXT"):
        apply(plan(writing(path, "9")), MACHINE, ledger, tell)
    assert abandon("1", "the disk is gone", ledger).state == "abandoned" and ledger.fix("1").why == "the disk is gone"
    assert apply(plan(writing(tmp_path / "y", "2")), MACHINE, ledger, tell).state == "finished"
    for identity in ("1", "2"):
        with pytest.raises(UserError, match="nothing to abandon"):
            abandon(identity, "again", ledger)
    with pytest.raises(UserError, match="abandoned: nothing to resume"):
        resume("1", MACHINE, ledger, tell)


def test_what_could_not_be_kept_is_refused_before_anything_is_written_down(tmp_path: Path, ledger: Ledger) -> None:
    os.mkfifo(tmp_path / "pipe")
    second = Step(says="x", argv=("true",), keeps=(str(tmp_path / "pipe"),))
    with pytest.raises(Unreadable, match="left alone"):
        apply(plan(writing(tmp_path / "x", "1"), second), MACHINE, ledger, tell)
    assert ledger.fixes() == [] and not (tmp_path / "x").exists()


def test_a_setting_that_the_kernel_refuses_is_found_before_the_first_one_is_written(ledger: Ledger) -> None:
    """As the interrupts that it manages; here a file that is never writable."""
    one, other = "/proc/self/oom_score_adj", "/proc/sys/kernel/osrelease"
    before = Path(one).read_text()
    steps = [Step(says="set", argv=("tee", it), stdin="7\n", keeps=(it,)) for it in (one, other)]
    with pytest.raises(Unreadable, match="osrelease"):
        apply(plan(*steps), MACHINE, ledger, tell)
    assert Path(one).read_text() == before and ledger.fixes() == []


def test_what_somebody_else_changed_since_is_not_overwritten(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "x"
    apply(plan(writing(path, "ours")), MACHINE, ledger, tell)
    path.write_text("theirs")
    with pytest.raises(UserError, match="changed since the fix"):
        undo("1", MACHINE, ledger, tell)
    assert path.read_text() == "theirs"
    undo("1", MACHINE, ledger, tell, force=True)
    assert not path.exists()


def test_a_later_fix_of_the_same_is_undone_first(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "x"
    path.write_text("0")
    apply(plan(writing(path, "1")), MACHINE, ledger, tell)
    apply(plan(writing(path, "2")), MACHINE, ledger, tell)
    with pytest.raises(UserError, match="fix 2 is newer"):
        undo("1", MACHINE, ledger, tell)
    undo("2", MACHINE, ledger, tell)
    undo("1", MACHINE, ledger, tell)
    assert path.read_text() == "0"
    for act in (undo, resume):
        with pytest.raises(UserError, match="undone"):
            act("1", MACHINE, ledger, tell)


def test_a_full_disk_stops_it_before_anything_is_done(tmp_path: Path) -> None:
    full = tmp_path / "full"
    full.mkdir()
    (full / "fixes.jsonl").touch()
    with size_limit(10), pytest.raises(Unreadable, match="not begun, and changed nothing"):
        apply(plan(writing(tmp_path / "x", "1")), MACHINE, Ledger(str(full)), tell)
    assert not (tmp_path / "x").exists()


@pytest.mark.parametrize("way", ["resume", "undo"])
@pytest.mark.parametrize("step", range(3))
@pytest.mark.parametrize("moment", ["before", "after"])
def test_killed_at_any_step_the_ledger_tells_the_truth_and_both_ways_work(
    tmp_path: Path, moment: str, step: int, way: str
) -> None:
    before = {path.name: path.read_text() for path in _made(tmp_path)}
    (tmp_path / f"{moment}-{step}").touch()
    assert _run(tmp_path, "apply") == -signal.SIGKILL
    fix = Ledger(str(tmp_path / "ledger")).fix("1")
    assert fix.state == "interrupted"
    done = [number for number, events in fix.steps().items() if "done" in events]
    assert done == list(range(step)) and list(fix.steps()) == list(range(step + 1))
    assert _run(tmp_path, way) == 0
    fix = Ledger(str(tmp_path / "ledger")).fix("1")
    files = {path.name: path.read_text() for path in tmp_path.glob("file-*")}
    if way == "resume":
        assert fix.state == "finished" and files == {f"file-{number}": f"step {number}\n" for number in range(3)}
        assert _run(tmp_path, "undo") == 0
        files = {path.name: path.read_text() for path in tmp_path.glob("file-*")}
    assert files == before
    assert Ledger(str(tmp_path / "ledger")).fix("1").state == "undone"


def _made(folder: Path) -> list[Path]:
    """One was there before, one is new, one was empty."""
    (folder / "file-0").write_text("as it was")
    (folder / "file-2").write_text("")
    return [folder / "file-0", folder / "file-2"]


def _run(folder: Path, way: str) -> int:
    return subprocess.run(
        [sys.executable, "-m", "tests.treatment.killed_at_a_step", str(folder), way],
        cwd=PROJECT,
        check=False,
        timeout=60,
    ).returncode


def test_the_ledger_holds_who_when_and_what_was_before(tmp_path: Path, ledger: Ledger) -> None:
    path = tmp_path / "x"
    path.write_text("before")
    apply(plan(writing(path, "after")), MACHINE, ledger, tell)
    events = [json.loads(line) for line in Path(ledger.path).read_text().splitlines()]
    assert [event["event"] for event in events] == ["planned", "begins", "done", "finished"]
    assert events[0]["who"]["user"] and all(event["at"] > 1e9 for event in events)
    assert events[1]["before"]["files"][str(path)]["kind"] == "file"
    assert Path(ledger.path).stat().st_mode & 0o77 == 0


def test_an_older_fix_is_undone_before_newer_ones_unless_they_changed_the_same(tmp_path: Path, ledger: Ledger) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for path, text in ((one, "1"), (two, "2"), (one, "3")):
        apply(plan(writing(path, text)), MACHINE, ledger, tell)
    with pytest.raises(UserError, match="fix 3 is newer and changed the same: run --undo 3 first"):
        undo("1", MACHINE, ledger, tell)
    assert undo("2", MACHINE, ledger, tell).state == "undone" and not two.exists(), "the third is about another file"
    undo("3", MACHINE, ledger, tell)
    assert undo("1", MACHINE, ledger, tell).state == "undone" and not one.exists()
