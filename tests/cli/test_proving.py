"""A proof can be left alone: it outlives its terminal, and the ledger says what became of it."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_fix import recorded
from tests.conftest import COMMAND, Run
from tests.diagnosis.incident import incident
from tests.treatment.test_prove import quick_reads
from tests.waiting import until

from zombiescope.treatment.ledger import Ledger
from zombiescope.treatment.proofs import KEPT, held, is_held, new_folder, proof_of

pytestmark = [pytest.mark.e2e, pytest.mark.skipif(os.geteuid() != 0, reason="fixes: run as root")]
CURED = {"sign": "crash_looping_unit", "subject": "unit:ecs.service", "says": ""}
STOP = {"says": "stop", "argv": ["systemctl", "stop", "--", "ecs.service"], "unit": "ecs.service"}
STEP = {"stdin": "", "undo": [], "keeps": [], "risk": ""} | STOP
PLAN = {"name": "stop_leaking_unit", "cures": CURED, "steps": [STEP], "proof": [], "risk": "safe"}


def killed_proof(folder: Path, window: float) -> Ledger:
    """A node on which a fix was applied and whose proof was killed at once."""
    ledger = Ledger(str(folder))
    with ledger.locked():
        proof = new_folder(ledger)
        recorded(incident(without="stacks", extra=quick_reads()), Path(proof) / "before")
        ledger.write("1", "planned", plan=PLAN, who={"user": "root"})
        ledger.write("1", "finished")
        how: dict[str, Any] = {"folder": proof, "settings": [], "signs": [], "fixes": ["1"], "window": window, "hz": 0}
        cured = [[CURED["sign"], CURED["subject"]]]
        ledger.write("1", "proving", until=time.time() + window, cured=cured, **how)
    return ledger


def listed(ledger: Ledger, zombiescope: Run) -> str:
    return zombiescope("fix", "--list", "--ledger", ledger.folder, expect=0).stdout.splitlines()[1].split("\t")[6]


@contextmanager
def resumed(ledger: Ledger, **options: Any) -> Iterator[subprocess.Popen[str]]:
    """`fix --resume 1`, at work."""
    argv = [str(COMMAND), "fix", "--resume", "1", "--ledger", ledger.folder]
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    with subprocess.Popen(argv, **(pipes | options)) as process:
        try:
            after = Path(str((proof_of(ledger.fix("1")) or {})["folder"])) / "after"
            until(lambda: list(after.glob("*/head")) or process.poll() is not None)
            assert process.poll() is None
            yield process
        finally:
            process.kill()


def test_it_survives_a_hangup_and_a_kill_is_shown_and_resumed(tmp_path: Path, zombiescope: Run) -> None:
    ledger = killed_proof(tmp_path / "ledger", 60.0)
    assert listed(ledger, zombiescope) == "killed: --resume 1 checks again"
    with resumed(ledger) as process:
        process.send_signal(signal.SIGHUP)
        time.sleep(1.2)
        assert process.poll() is None, "a hangup does not end it"
        said = listed(ledger, zombiescope)
        assert said.startswith("running since 20") and ", ends at 20" in said
        refused = zombiescope("fix", "--resume", "1", "--ledger", ledger.folder, expect=2)
        assert "nothing to resume" in refused.stderr
        process.kill()
        process.wait()
    assert listed(ledger, zombiescope).startswith("killed")
    assert ledger.fix("1").state == "finished", "the fix itself is done"


def test_ctrl_c_ends_it_early_and_then_nothing_is_proved(tmp_path: Path, zombiescope: Run) -> None:
    ledger = killed_proof(tmp_path / "ledger", 600.0)
    with resumed(ledger) as process:
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=60)
    # What others do on this machine may fail a check; whatever it is, nothing is proved.
    assert (process.returncode, out.split(":")[0]) in ((3, "CANNOT TELL"), (1, "NOT PROVED"))
    assert "of 10 min: it was cut short" in out
    assert listed(ledger, zombiescope) == out.split(":")[0].lower()
    (fix,) = json.loads(zombiescope("fix", "--list", "--format", "json", "--ledger", ledger.folder, expect=0).stdout)
    assert fix["proof"]["state"] != "proved" and fix["state"] == "finished"
    assert {it["name"]: it["state"] for it in fix["proof"]["checks"]}["the whole window"] == "blind"
    assert "nothing to resume" in zombiescope("fix", "--resume", "1", "--ledger", ledger.folder, expect=2).stderr


def test_it_runs_on_and_its_result_is_kept_when_the_terminal_goes(tmp_path: Path, zombiescope: Run) -> None:
    ledger = killed_proof(tmp_path / "ledger", 5.0)
    ours, its = pty.openpty()
    with resumed(ledger, stdin=its, stdout=its, stderr=its, start_new_session=True) as process:
        os.close(its)
        os.close(ours)  # what is written to the terminal fails from now on
        process.wait(timeout=60)
    proof = proof_of(ledger.fix("1"))
    assert proof is not None and proof["state"] in ("cannot tell", "not proved")
    whole = next(it for it in proof["checks"] if it["name"] == "the whole window")
    assert whole["state"] == "held", whole
    assert listed(ledger, zombiescope) == proof["state"]


def test_a_proof_holds_its_folder_and_old_ones_go(tmp_path: Path) -> None:
    ledger = Ledger(str(tmp_path))
    first = new_folder(ledger)
    with held(first):
        assert is_held(first)
        assert os.stat(first).st_mode & 0o777 == 0o700 == os.stat(Path(first).parent).st_mode & 0o777
        for number in range(KEPT + 3):
            (Path(first).parent / f"20200101T00000{number}Z-1").mkdir()
        os.rename(first, f"{Path(first).parent}/20000101T000000Z-1")
        new = new_folder(ledger)
    names = sorted(it.name for it in Path(first).parent.iterdir())
    assert len(names) == KEPT + 2 and names[0] == "20000101T000000Z-1" and names[-1] == Path(new).name
    assert not is_held(new)
