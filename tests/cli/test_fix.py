"""`fix` and `prove` as a user meets them: nothing is done without a word, and nobody is left in doubt."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest
from tests.conftest import COMMAND, Run
from tests.diagnosis.incident import agent, dead, incident
from tests.nodes import node
from tests.recorder.journal import Journal
from tests.signs.test_zombie_cgroups import v1
from tests.treatment.test_prove import later, quick_reads

from zombiescope.core import Reading
from zombiescope.core.timeline import Timeline
from zombiescope.treatment.ledger import Ledger

pytestmark = pytest.mark.e2e


def recorded(timeline: Timeline, folder: Path) -> str:
    """A timeline as a recording on disk; without its stacks."""
    events = ("kernel_log", "ray_event")
    whats = [what for what in timeline.looked_for() if what not in ("samples_total", "kernel_symbols")]
    meta = {"node": "node-a", "kernel": "6.1.0", "gives": {what: [what] for what in whats}, "hz": 0}
    journal = Journal(str(folder), meta, events=events)
    rows: list[Reading] = []
    for what in whats:
        looks = timeline.looks(what)
        rows += [replace(looks.reading(place), what="looked", subject=f"probe:{what}") for place in range(len(looks))]
        for subject in timeline.subjects(what):
            one = timeline.series(what, subject)
            rows += [one.reading(place) for place in range(len(one))]
    for row in sorted(rows, key=lambda row: row.at):
        if row.what == "looked":
            journal.look(row.subject.removeprefix("probe:"), (row.subject.removeprefix("probe:"),), row.at)
        else:
            journal.add(row)
    journal.flush(timeline.span.end)
    journal.close()
    return str(folder)


@pytest.fixture(scope="module")
def before(tmp_path_factory: pytest.TempPathFactory) -> str:
    return recorded(incident(without="stacks", extra=quick_reads()), tmp_path_factory.mktemp("fix") / "before")


def test_a_plan_from_a_recording_shows_every_command_and_changes_nothing(before: str, zombiescope: Run) -> None:
    done = zombiescope("fix", "--recording", before, expect=1)
    for words in (
        "stop_leaking_unit (safe): for crash_looping_unit of unit:ecs.service",
        "$ systemctl stop -- ecs.service",
        "undo: ecs.service restored byte for byte",
        "does not fix: why it crashes",
        "proved when these are clear: crash_looping_unit",
    ):
        assert words in done.stdout, words
    assert "nothing was changed" in done.stderr and "\npurge_zombies (" not in done.stdout, "no harm of them was seen"
    purge = zombiescope("fix", "purge_zombies", "--recording", before, expect=1).stdout
    assert "every program reads from disk again [disruptive]" in " ".join(purge.split())
    shape = json.loads(zombiescope("fix", "--recording", before, "--format", "json", expect=1).stdout)
    assert shape["plans"][0]["name"] == "stop_leaking_unit"
    others = [line for line in done.stdout.splitlines() if line.startswith("  zombiescope fix ")]
    assert others and all(f" --recording {before}  (" in line for line in others), "about that node, not about this one"
    assert "add --apply" not in done.stderr and "on that node" in done.stderr
    assert "cannot fix a recording" in zombiescope("fix", "--recording", before, "--apply", expect=2).stderr


def test_a_remedy_that_is_named_plans_for_what_there_is(tmp_path: Path, zombiescope: Run) -> None:
    """680 dying, most of all there are, harm nobody yet: no finding; who wants them gone may say so."""
    few = recorded(node(v1([740.0] * 30, live=60)), tmp_path / "few")
    assert "nothing to fix" in zombiescope("fix", "--recording", few, expect=3).stdout
    purge = zombiescope("fix", "purge_zombies", "--recording", few, expect=1).stdout
    assert "purge_zombies" in purge and "680 dying" in purge
    none = recorded(node(v1([66.0] * 30, live=60)), tmp_path / "none")
    said = zombiescope("fix", "purge_zombies", "--recording", none, expect=2).stderr
    assert "there is nothing here for it to do" in said


def test_what_is_in_use_on_another_node_is_not_asked_of_this_one(tmp_path: Path, zombiescope: Run) -> None:
    """No container runs here; on the node of the recording there may be some."""
    folder = recorded(node([*agent("docker.service"), *dead()]), tmp_path / "rec")
    (plan,) = json.loads(
        zombiescope("fix", "docker.service", "--recording", folder, "--format", "json", expect=1).stdout
    )["plans"]
    assert "docker.service is essential" in plan["refused"]


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("--prove", "1"), "needs --apply"),
        (("--prove", "0", "--apply"), "not a number of minutes"),
        (("--undo", "9", "--ledger", "/nowhere/at/all"), "/nowhere/at/all"),
        (("nothing_like_it", "--seconds", "0.1", "--hz", "0"), "'nothing_like_it': no plan for it"),
        (("--recording", "/nowhere"), "/nowhere"),
    ],
)
def test_a_mistake_is_told_in_one_line(argv: tuple[str, ...], says: str, zombiescope: Run) -> None:
    done = zombiescope("fix", *argv, expect=2)
    assert says in done.stderr.splitlines()[-1]


def test_an_empty_ledger_is_no_error(tmp_path: Path, zombiescope: Run) -> None:
    assert zombiescope("fix", "--list", "--ledger", str(tmp_path), expect=0).stdout.startswith("id\tstate")
    assert (
        json.loads(zombiescope("fix", "--list", "--ledger", str(tmp_path), "--format", "json", expect=0).stdout) == []
    )
    with Ledger(str(tmp_path)).locked():
        pass
    assert "there is none yet" in zombiescope("fix", "--undo", "1", "--ledger", str(tmp_path), expect=2).stderr


@pytest.mark.skipif(os.geteuid() != 0 or not shutil.which("setpriv"), reason="becomes another user: run as root")
def test_who_may_not_act_is_shown_the_plan_and_told_what_is_missing(before: str, tmp_path: Path) -> None:
    """As nobody, live: every plan is shown, nothing is done."""
    os.chmod(tmp_path, 0o777)
    argv = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups", str(COMMAND)]
    for path in (Path(before), *Path(before).parents, *Path(before).rglob("*")):  # a recording is private
        os.chmod(path, os.stat(path).st_mode | 0o5)
    shown = subprocess.run([*argv, "fix", "--recording", before], capture_output=True, text=True, check=False)
    if "Permission denied" in shown.stderr or shown.returncode == 126:
        pytest.skip("the command is in a folder that others may not enter")
    assert shown.returncode == 1 and "$ systemctl stop -- ecs.service" in shown.stdout
    refused = subprocess.run(
        [*argv, "fix", "--undo", "1", "--ledger", str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert refused.returncode == 2 and "this needs root" in refused.stderr and not list(tmp_path.iterdir())


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root")
def test_abandon_keeps_the_reason_and_shows_it(tmp_path: Path, zombiescope: Run) -> None:
    where, ledger = ("--ledger", str(tmp_path)), Ledger(str(tmp_path))
    with ledger.locked():
        cures = {"sign": "z", "subject": "unit:x", "says": "sick"}
        plan = {"name": "cure", "cures": cures, "risk": "safe", "proof": [], "steps": []}
        ledger.write("1", "planned", plan=plan, who={"user": "root"})
    assert "needs --why TEXT" in zombiescope("fix", "--abandon", "1", *where, expect=2).stderr
    zombiescope("fix", "--abandon", "1", "--why", "the node was\x1b[31m replaced", *where, expect=0)
    listed = zombiescope("fix", "--list", *where, expect=0).stdout.splitlines()[1].split("\t")
    assert listed[1] == "abandoned" and listed[-1] == "the node was\\x1b[31m replaced"
    assert "nothing to abandon" in zombiescope("fix", "--abandon", "1", "--why", "x", *where, expect=2).stderr


HOSTILE = ("a\nb.service", "%n.service", "\x1b[31m.service", "-rf.service", "x\\x2dy.service", "y" * 247 + ".service")


@pytest.mark.parametrize("unit", HOSTILE, ids=range(len(HOSTILE)))
def test_a_unit_with_a_hostile_name_is_no_traceback_and_no_escape(unit: str, tmp_path: Path, zombiescope: Run) -> None:
    folder = recorded(node([*agent(unit), *dead()]), tmp_path / "rec")
    argvs = ((), (f"unit:{unit}",), ("--format", "json"))
    told, *_ = every = [zombiescope("fix", *argv, "--recording", folder) for argv in argvs]
    for done in every:
        assert done.returncode in (1, 2) and "\x1b[31m" not in done.stdout + done.stderr
    assert unit not in HOSTILE[:3] or "$ systemctl" not in told.stdout, "only names that systemd accepts"


def test_two_recordings_prove_a_cure_or_not(before: str, tmp_path: Path, zombiescope: Run) -> None:
    good = recorded(later(without="stacks"), tmp_path / "good")
    bad = recorded(later(grows=1.0), tmp_path / "bad")
    blind = recorded(later(without="log"), tmp_path / "blind")
    assert zombiescope("prove", before, good, expect=0).stdout.startswith("PROVED")
    shape = json.loads(zombiescope("prove", before, bad, "--format", "json", expect=1).stdout)
    assert shape["state"] == "not proved" and shape["cured"][0]["subject"] == "unit:ecs.service"
    assert zombiescope("prove", before, blind, expect=3).stdout.startswith("CANNOT TELL")
    assert "give the recording from before the fix first" in zombiescope("prove", good, before, expect=2).stderr
    assert "nothing to prove" in zombiescope("prove", before, bad, "--cured", "unit:x", expect=2).stderr


def test_a_recording_without_anything_is_no_proof(tmp_path: Path, zombiescope: Run) -> None:
    empty = recorded(node([]), tmp_path / "empty")
    assert "nothing to prove" in zombiescope("prove", empty, empty, expect=2).stderr
