"""Attacks on the ledger of fixes: what a stranger plants in it, or in its place, is neither run nor removed."""

from __future__ import annotations

import json
import os
import random
import resource
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from tests.cli.test_proving import killed_proof
from tests.conftest import Run

from zombiescope.agent.event_log import EventLog
from zombiescope.cli._fixes import as_json
from zombiescope.core import Blind, Finding, Host, Plan, Reading, Span, Step, Unreadable, UserError
from zombiescope.fleet.spool import Spool
from zombiescope.places.own_folders import LEDGER_ENVIRONMENT
from zombiescope.probes import fixes
from zombiescope.treatment import ledger as ledgers
from zombiescope.treatment.apply import Machine, apply, resume, undo
from zombiescope.treatment.ledger import Ledger
from zombiescope.treatment.ledger_events import EVENTS, unwritten
from zombiescope.treatment.proofs import KEPT, new_folder

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="root is attacked: run the tests as root")
NOBODY = 65534
MACHINE = Machine(Host(), Host())
READ = Reading(what="x", subject="node", value=1, at=0, source="/proc/x")
FINDING = Finding(subject="node", span=Span(0, 1), says="sick", evidence=(READ,), sign="zombie_cgroups")
STOP = {"says": "stop", "argv": ["systemctl", "stop", "--", "zslab-x.service"], "unit": "zslab-x.service"}
REAP = {"says": "signal", "argv": ["kill", "-CHLD", "1"]}


def tell(_: str) -> None:
    pass


def lines(*steps: dict[str, Any], remedy: str = "reap_defunct", begun: dict[str, Any] | None = None) -> list[Any]:
    """A ledger with one fix that was interrupted in its first step, as a stranger would write it."""
    every = {"says": "", "stdin": "", "undo": [], "unit": "", "keeps": [], "risk": ""}
    cures = {"sign": "z", "subject": "unit:x", "says": ""}
    plan = {"name": remedy, "cures": cures, "risk": "safe", "proof": [], "steps": [every | it for it in steps]}
    before = {"files": begun or {}, "runs": "", "disables": []}
    return [
        {"fix": "1", "at": 1.0, "event": "planned", "plan": plan, "who": {"user": "root"}},
        {"fix": "1", "at": 1.0, "event": "begins", "step": 0, "before": before},
    ]


def planted(folder: Path, events: list[Any]) -> Path:
    folder.mkdir(exist_ok=True)
    (folder / "fixes.jsonl").write_text("".join(json.dumps(it) + "\n" for it in events))
    return folder


def refused(zombiescope: Run, folder: Path, *argv: str) -> str:
    done = zombiescope("fix", *argv, "--ledger", str(folder), expect=2)
    assert len(done.stderr.splitlines()) == 1, done.stderr
    return done.stderr


def theirs(folder: Path) -> Path:
    os.chown(folder, NOBODY, NOBODY)
    return folder


def open_to_all(folder: Path) -> Path:
    folder.chmod(0o777)
    return folder


def a_link(folder: Path) -> Path:
    (folder.parent / "link").symlink_to(folder)
    return folder.parent / "link"


def below_theirs(folder: Path) -> Path:
    above = folder.parent / "above"
    above.mkdir()
    folder.rename(above / "ledger")
    return theirs(above) / "ledger"


def its_file_is_theirs(folder: Path) -> Path:
    theirs(folder / "fixes.jsonl")
    return folder


@pytest.mark.parametrize("hostile", [theirs, open_to_all, a_link, below_theirs, its_file_is_theirs])
@pytest.mark.parametrize("way", ["--resume", "--undo", "--list"])
def test_a_ledger_that_others_could_have_written_is_not_believed(
    tmp_path: Path, zombiescope: Run, hostile: Callable[[Path], Path], way: str
) -> None:
    """A folder, a folder above it, a link or a file of a stranger stands where root keeps its ledger."""
    folder = hostile(planted(tmp_path / "ledger", lines(REAP)))
    said = refused(zombiescope, folder, way, *(["1"] if way != "--list" else []))
    assert any(
        words in said
        for words in ("belongs to nobody", f"belongs to user {NOBODY}", "others can write", "a symbolic link")
    ), said


def test_a_link_in_the_place_of_the_lock_empties_no_file(tmp_path: Path, zombiescope: Run) -> None:
    """fixes.lock leads to a file of root, which was truncated."""
    precious = tmp_path / "precious"
    precious.write_text("as it was")
    folder = planted(tmp_path / "ledger", lines(REAP))
    (folder / "fixes.lock").symlink_to(precious)
    refused(zombiescope, folder, "--undo", "1")
    assert precious.read_text() == "as it was"


def test_a_link_in_the_place_of_the_ledger_is_not_written_to(tmp_path: Path) -> None:
    """fixes.jsonl leads to a file of root, to which the first event was appended."""
    precious = tmp_path / "precious"
    precious.write_text("as it was\n")
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "fixes.jsonl").symlink_to(precious)
    ledger = Ledger(str(tmp_path / "ledger"))
    plan = Plan(cures=FINDING, steps=(Step(says="x", argv=("kill", "-CHLD", "1")),), risk="safe", proof=())
    with pytest.raises((UserError, Unreadable)):
        apply(plan, MACHINE, ledger, tell)
    assert precious.read_text() == "as it was\n"


STEPS = {
    "a command": {"says": "x", "argv": ["touch", "RAN"]},
    "a shell": {"says": "x", "argv": ["sh", "-c", "touch RAN", "stop", "a.scope"], "unit": "a.scope"},
    "a command that undoes": REAP | {"undo": ["touch", "RAN"]},
    "a file that is kept": REAP | {"keeps": ["RAN"]},
    "one of another remedy": {"says": "x", "argv": ["fsfreeze", "--unfreeze", "--", "/"]},
    "a unit beside the one that is stopped": STOP | {"argv": ["systemctl", "stop", "--", "a.service", "b.service"]},
}


@pytest.mark.parametrize("name", STEPS)
@pytest.mark.parametrize("way", ["--resume", "--undo"])
def test_a_step_that_no_remedy_makes_is_not_run(tmp_path: Path, zombiescope: Run, name: str, way: str) -> None:
    """A planned step, or its undo, is any command that the stranger likes."""
    ran = tmp_path / "ran"
    step = json.loads(json.dumps(STEPS[name]).replace("RAN", str(ran)))
    before = {str(ran): {"kind": "file", "content": "cHduZWQ=", "mode": 0o4755, "uid": 0, "gid": 0}}
    folder = planted(tmp_path / "ledger", lines(step, begun=before if "kept" in name else None))
    for remedy in ("reap_defunct", "stop_empty_scopes", "stop_leaking_unit", "no_such_remedy", "../cure", "__init__"):
        text = (folder / "fixes.jsonl").read_text()
        (folder / "fixes.jsonl").write_text(text.replace("reap_defunct", remedy))
        said = refused(zombiescope, folder, way, "1")
        assert f"line 1: step 1 is not one that {remedy} makes" in said, said
        (folder / "fixes.jsonl").write_text(text)
    assert not ran.exists()


FILE = {"kind": "file", "content": "cHduZWQ=", "mode": 0o4755, "uid": 0, "gid": 0}


@pytest.mark.parametrize(
    ("path", "state"),
    [
        ("RAN", FILE),
        ("/etc/systemd/system/zslab-x.service.d/../../../..RAN", FILE),
        ("/etc/systemd/system/zslab-y.service", FILE),
        ("/etc/systemd/system/zslab-y.service.d", FILE),
        ("/etc/systemd/system/basic.target.wants/zslab-y.service", FILE),
        ("/etc/systemd/system/zslab-y.service.d/x.conf", {"kind": "link", "to": "/tmp/x"}),
        ("/etc/systemd/system", {"kind": "folder", "mode": 0o777, "uid": NOBODY, "gid": 0}),
        ("/proc/self/oom_score_adj", {"kind": "setting", "content": "MA=="}),
    ],
)
@pytest.mark.parametrize("event", ["begins", "done"])
def test_a_file_that_the_step_does_not_change_is_not_restored(
    tmp_path: Path, zombiescope: Run, path: str, state: dict[str, Any], event: str
) -> None:
    """The step is a remedy's own; the state of files "before" it is an invention, which undo would write."""
    ran = tmp_path / "ran"
    path = path.replace("RAN", str(ran))
    events = lines(STOP, remedy="stop_leaking_unit", begun={path: state})
    if event == "done":
        events = lines(STOP, remedy="stop_leaking_unit")
        done = {"fix": "1", "at": 1.0, "event": "done", "step": 0, "after": {"files": {path: state}}}
        events += [done, {"fix": "1", "at": 1.0, "event": "finished"}]
    said = refused(zombiescope, planted(tmp_path / "ledger", events), "--undo", "1", "--force")
    assert f"line {len(events) - 1 if event == 'done' else 2}: step 1 does not change {path}" in said, said
    assert not ran.exists()


NOT_EVENTS = {
    "no event": [],
    "an unknown event": {"fix": "1", "at": 1.0, "event": "run"},
    "a step that there is not": {"fix": "1", "at": 1.0, "event": "step undone", "step": 7},
    "a step that is no number": {"fix": "1", "at": 1.0, "event": "begins", "step": "0", "before": {}},
    "no state before": {
        "fix": "1",
        "at": 1.0,
        "event": "begins",
        "step": 0,
        "before": {"files": {"/x": {"kind": "x"}}},
    },
    "a mode that is no mode": {
        "fix": "1",
        "at": 1.0,
        "event": "begins",
        "step": 0,
        "before": {"files": {"/x": FILE | {"mode": "777; id"}}, "runs": "", "disables": []},
    },
    "an event of a fix that was not planned": {"fix": "2", "at": 1.0, "event": "finished"},
    "a second plan": lines(REAP)[0],
    "a number that is none": {"fix": "1/../2", "at": 1.0, "event": "finished"},
    "a proof elsewhere": {"fix": "1", "at": 1.0, "event": "proving", "folder": "/etc", "until": 2.0},
}


@pytest.mark.parametrize("name", NOT_EVENTS)
def test_a_line_that_zombiescope_does_not_write_is_refused_by_its_number(
    tmp_path: Path, zombiescope: Run, name: str
) -> None:
    """One foreign line in a ledger that is whole otherwise."""
    folder = planted(tmp_path / "ledger", [*lines(REAP), NOT_EVENTS[name]])
    for argv in (["--list"], ["--resume", "1"], ["--undo", "1"]):
        assert "fixes.jsonl, line 3: " in refused(zombiescope, folder, *argv)


def test_a_folder_that_a_proof_names_is_not_removed(tmp_path: Path, zombiescope: Run) -> None:
    """`--resume` of a killed proof empties FOLDER/after and records there; the ledger said which folder."""
    ledger = killed_proof(tmp_path / "ledger", 1.0)
    (folder,) = Path(ledger.folder, "proofs").iterdir()
    precious = folder.rename(tmp_path / folder.name)
    (precious / "after").mkdir()
    (precious / "after" / "file").write_text("as it was")
    text = Path(ledger.path).read_text()
    Path(ledger.path).write_text(text.replace(str(folder), str(precious)))
    refused(zombiescope, Path(ledger.folder), "--resume", "1")
    assert (precious / "after" / "file").read_text() == "as it was"
    assert ledger.fix("1").events[-1]["folder"] == str(folder)


def test_a_link_in_the_place_of_the_proofs_removes_nothing(tmp_path: Path) -> None:
    """Earlier proofs are removed when a new one begins; the folder of proofs leads elsewhere."""
    elsewhere = tmp_path / "elsewhere"
    for day in range(1, KEPT + 4):
        (elsewhere / f"2020010{day}T000000Z-1").mkdir(parents=True)
    (tmp_path / "ledger").mkdir()
    (tmp_path / "ledger" / "proofs").symlink_to(elsewhere)
    with pytest.raises(UserError, match="a symbolic link"):
        new_folder(Ledger(str(tmp_path / "ledger")))
    assert len(list(elsewhere.iterdir())) == KEPT + 3


def test_what_is_no_proof_is_not_removed_with_old_proofs(tmp_path: Path) -> None:
    """Somebody keeps a folder of his own beside the proofs."""
    top = tmp_path / "ledger" / "proofs"
    for name in ("0-mine", *(f"2020010{day}T000000Z-1" for day in range(1, KEPT + 4))):
        (top / name).mkdir(parents=True)
    new_folder(Ledger(str(tmp_path / "ledger")))
    assert (top / "0-mine").is_dir() and len(list(top.iterdir())) == KEPT + 2


@pytest.mark.parametrize("opens", [EventLog, Spool])
@pytest.mark.parametrize("hostile", [theirs, open_to_all, a_link, below_theirs])
def test_the_agent_keeps_nothing_where_others_can_write(
    tmp_path: Path, opens: Callable[[str], object], hostile: Callable[[Path], Path]
) -> None:
    """What the agent writes is believed at its next start, its own fixes among it."""
    (tmp_path / "dir").mkdir()
    with pytest.raises(UserError):
        opens(str(hostile(tmp_path / "dir")))


@pytest.mark.parametrize("hostile", [theirs, open_to_all, below_theirs, its_file_is_theirs])
def test_fixes_that_a_stranger_claims_are_not_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, hostile: Callable[[Path], Path]
) -> None:
    """A ledger of a stranger would draw fixes into the chart that never were."""
    events = lines(REAP)
    events[0]["at"] = Host().now()
    folder = hostile(planted(tmp_path / "ledger", events))
    monkeypatch.setenv(LEDGER_ENVIRONMENT, str(folder))
    with pytest.raises(Unreadable, match="not trusted by root"):
        assert not [it for it in fixes.read(Host()) if not isinstance(it, Blind)]


# What is said where the ledger cannot be written


@contextmanager
def size_limit(most: int) -> Iterator[None]:
    """No file can grow beyond so many bytes, as on a full disk."""
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)


def two_files(folder: Path) -> tuple[Plan, Callable[[], list[str]]]:
    """A plan that writes into two files, and what is in them."""
    files = [folder / "one", folder / "two"]
    for file in files:
        file.write_text("0")
    steps = tuple(Step(says="x", argv=("tee", str(it)), stdin="1", keeps=(str(it),)) for it in files)
    return Plan(cures=FINDING, steps=steps, risk="safe", proof=(), name="cure"), lambda: [
        it.read_text() for it in files
    ]


WAYS: dict[str, Callable[[Plan, Ledger], object]] = {
    "apply": lambda plan, ledger: apply(plan, MACHINE, ledger, tell),
    "undo": lambda _, ledger: undo("1", MACHINE, ledger, tell),
    "resume": lambda _, ledger: resume("1", MACHINE, ledger, tell),
}


@pytest.mark.usefixtures("cure")
@pytest.mark.parametrize("way", WAYS)
def test_a_full_disk_at_any_event_never_hides_what_was_changed(tmp_path: Path, way: str) -> None:
    """The disk is full in the line of each event in turn."""
    plan, read = two_files(tmp_path)
    applied = Ledger(str(tmp_path / "applied"))
    apply(plan, MACHINE, applied, tell)
    begun = Path(applied.path).read_bytes().splitlines(keepends=True)[: {"apply": 0, "resume": 2, "undo": 6}[way]]

    def again(name: str) -> Ledger:
        """The node and its ledger as they are before this way."""
        for step in plan.steps:
            Path(step.keeps[0]).write_text("1" if way == "undo" else "0")
        (tmp_path / name).mkdir()
        (tmp_path / name / "fixes.jsonl").write_bytes(b"".join(begun))
        return Ledger(str(tmp_path / name))

    whole = again("whole")
    WAYS[way](plan, whole)
    every = Path(whole.path).read_bytes().splitlines(keepends=True)
    said: dict[str, set[bool]] = {}
    for number in range(len(begun), len(every)):
        ledger = again(str(number))
        before, limit = read(), sum(map(len, every[:number])) + len(every[number]) // 2
        with size_limit(limit), pytest.raises((Unreadable, UserError)) as failed:
            WAYS[way](plan, ledger)
        assert "cannot be written" in str(failed.value)
        words, changed = str(failed.value).partition("): ")[2], read() != before
        assert not (changed and "nothing" in words), words
        said.setdefault(words, set()).add(changed)
    assert len(said) == len(every) - len(begun), said
    assert all(len(changed) == 1 for changed in said.values()), "the same words for a node that was changed and not"


def test_a_ledger_that_is_too_large_is_refused_and_not_cut(tmp_path: Path, zombiescope: Run) -> None:
    """What was past the limit was not read: fixes vanished, and their numbers were given again."""
    folder = planted(tmp_path / "ledger", lines(REAP))
    os.truncate(folder / "fixes.jsonl", ledgers.MOST_BYTES + 1)
    for argv in (["--list"], ["--undo", "1"], ["--resume", "1"]):
        said = refused(zombiescope, folder, *argv)
        assert "it has 256 MB, more than 256: move it into another folder" in said and "--ledger FOLDER" in said


def test_no_fix_begins_that_could_not_be_read_again(tmp_path: Path) -> None:
    """A ledger that has nearly reached the limit."""
    folder = tmp_path / "ledger"
    folder.mkdir()
    (folder / "fixes.jsonl").write_bytes(b"\n")
    os.truncate(folder / "fixes.jsonl", ledgers.FULL + 1)
    step = Step(says="x", argv=("kill", "-CHLD", str(os.getpid())))
    plan = Plan(cures=FINDING, steps=(step,), risk="safe", proof=(), name="reap_defunct")
    with pytest.raises(UserError, match="move it into another folder"):
        apply(plan, MACHINE, Ledger(str(folder)), tell)


def every_event(step: Step, file: Path) -> list[dict[str, Any]]:
    """One of each kind that a ledger may hold, of a fix with one step."""
    files = {str(file): {"kind": "absent"}}
    proving = {"folder": "20260101T000000Z-1", "until": 2.0, "window": 1.0, "hz": 0, "settings": [], "cured": []}
    rest: dict[str, dict[str, Any]] = {
        "begins": {"step": 0, "before": {"files": files, "runs": "", "disables": []}},
        "done": {"step": 0, "after": {"files": files}},
        "failed": {"step": 0, "why": "no space"},
        "undoing": {"step": 0, "commands": [" ".join(step.argv)]},
        "step undone": {"step": 0},
        "abandoned": {"why": "gone"},
        "proving": proving | {"signs": [], "fixes": ["1"]},
        "proved": {"state": "proved", "checks": []},
    }
    return [{"fix": "1", "at": 1.0, "event": name} | rest.get(name, {}) for name in EVENTS if name != "planned"]


@pytest.mark.usefixtures("cure")
def test_whatever_events_follow_each_other_the_ledger_is_read_or_refused(tmp_path: Path) -> None:
    """Every pair of events, and two hundred longer rows, in an order that no fix has."""
    file, chance = tmp_path / "x", random.Random(8)
    step = Step(says="x", argv=("true",), keeps=(str(file),))
    (planned, _) = lines({"says": "x", "argv": ["true"], "keeps": [str(file)]}, remedy="cure")
    one = every_event(step, file)
    rows = [[a] for a in one] + [[a, b] for a in one for b in one] + [chance.choices(one, k=5) for _ in range(200)]
    states = set()
    for number, row in enumerate(rows):
        ledger = Ledger(str(planted(tmp_path / f"ledger{number}", [planned, *row])))
        (fix,) = ledger.fixes()
        states.add(as_json(fix)["state"])
        for way in (WAYS["undo"], WAYS["resume"]):
            with suppress(UserError, Unreadable):
                way(Plan(cures=FINDING, steps=(step,), risk="safe", proof=()), ledger)
            assert ledger.fixes()[0].events[: len(row) + 1] == fix.events, "what was written stays"
    assert states == {"finished", "undone", "failed", "abandoned", "interrupted"}


def test_each_event_says_what_is_true_where_it_is_not_written() -> None:
    """All of them said that nothing was changed."""
    said = {name: unwritten(name, 0) for name in EVENTS}
    assert len(set(said.values())) == len(said) and "{" not in "".join(said.values())
    silent = {name for name, words in said.items() if "nothing" in words}
    assert silent == {"planned", "undoing all"}, "only before anything is done"
