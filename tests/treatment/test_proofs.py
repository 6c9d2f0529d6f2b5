"""What the ledger says of a proof: running, killed or its result; and one process at a time."""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from zombiescope.core import Unreadable, UserError
from zombiescope.treatment import proofs
from zombiescope.treatment.ledger import Ledger
from zombiescope.treatment.proofs import KEPT, begun, held, is_held, new_folder, note, proof_of

STEP = {"says": "", "argv": ["true"], "stdin": "", "undo": [], "unit": "", "keeps": [], "risk": ""}
CURES = {"sign": "z", "subject": "unit:x", "says": ""}
PLAN = {"name": "stop_it", "cures": CURES, "risk": "safe", "proof": [], "steps": [STEP]}
ROOT = {"user": "root"}
HOW: dict[str, Any] = {"window": 1.0, "hz": 0, "settings": [], "cured": [], "signs": [], "fixes": ["1"]}
OLD = "20200101T000000Z-1"
CHECK = {"name": "load", "state": "blind", "says": ""}


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    found = Ledger(str(tmp_path))
    with found.locked():
        found.write("1", "planned", plan=PLAN, who=ROOT)
        found.write("1", "finished")
    return found


def test_a_fix_without_a_proof_has_none(ledger: Ledger) -> None:
    assert proof_of(ledger.fix("1")) is None


def test_it_runs_while_its_folder_is_held_then_it_was_killed_or_has_a_result(ledger: Ledger) -> None:
    folder = new_folder(ledger)
    note(ledger, ["1"], "proving", folder=folder, until=7.0, **HOW)
    with held(folder):
        running = proof_of(ledger.fix("1"))
        assert running is not None and (running["state"], running["until"]) == ("running", 7.0)
        with pytest.raises(UserError, match="running already"), held(folder):
            pass
    killed = proof_of(ledger.fix("1"))
    assert killed is not None and (killed["state"], killed["checks"], killed["folder"]) == ("killed", [], folder)
    note(ledger, ["1"], "proved", state="cannot tell", checks=[CHECK])
    ended = proof_of(ledger.fix("1"))
    assert ended is not None and (ended["state"], ended["checks"]) == ("cannot tell", [CHECK])
    assert ended["since"] == killed["since"] <= time.time()


def test_a_second_proof_hides_the_result_of_the_first(ledger: Ledger) -> None:
    first, second = new_folder(ledger), str(Path(ledger.folder) / "proofs/20300101T000000Z-1")
    note(ledger, ["1"], "proving", folder=first, until=1.0, **HOW)
    note(ledger, ["1"], "proved", state="proved", checks=[])
    note(ledger, ["1"], "proving", folder=second, until=2.0, **HOW)
    now = proof_of(ledger.fix("1"))
    assert now is not None and (now["state"], now["folder"], now["until"]) == ("killed", second, 2.0)
    assert begun(ledger.fix("1"))["folder"] == second


def test_folders_are_private_and_of_the_earlier_ones_the_latest_stay(ledger: Ledger) -> None:
    top = Path(ledger.folder) / "proofs"
    top.mkdir(mode=0o755)
    earlier = [f"2020010{day}T000000Z-1" for day in range(1, KEPT + 4)]
    for name in earlier:
        (top / name).mkdir()
    with held(str(top / earlier[1])):
        folder = new_folder(ledger)
    assert sorted(os.listdir(top)) == sorted([earlier[1], *earlier[-KEPT:], os.path.basename(folder)])
    assert {stat.S_IMODE(os.stat(it).st_mode) for it in (top, folder)} == {0o700}


def test_where_no_folder_can_be_made_it_is_said(tmp_path: Path) -> None:
    (tmp_path / "proofs").write_text("a file")
    with pytest.raises(UserError, match="not a folder"):
        new_folder(Ledger(str(tmp_path)))


def test_a_lock_that_is_a_link_or_absent_is_not_held(tmp_path: Path) -> None:
    assert not is_held(str(tmp_path))
    (tmp_path / "proof.lock").symlink_to(tmp_path / "elsewhere")
    assert not is_held(str(tmp_path))
    with pytest.raises(Unreadable), held(str(tmp_path)):
        pass
    assert not (tmp_path / "elsewhere").exists()


def test_another_fix_is_waited_for_but_not_for_ever(ledger: Ledger, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(proofs, "PATIENCE", 0.0)
    other = Ledger(ledger.folder)
    with other.locked():
        with pytest.raises(UserError, match="another fix is running"):
            note(ledger, ["1"], "proving", folder=OLD, until=1.0, **HOW)
        monkeypatch.setattr(proofs, "PATIENCE", 60.0)
        waiting = threading.Thread(
            target=note, args=(ledger, ["1"], "proving"), kwargs={"folder": OLD, "until": 1.0, **HOW}
        )
        waiting.start()
        time.sleep(0.2)
        assert [it["event"] for it in ledger.fix("1").events] == ["planned", "finished"]
    waiting.join(30)
    assert [it["event"] for it in ledger.fix("1").events][-1] == "proving"
