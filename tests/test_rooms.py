"""What every room promises, checked for every file in it: a new member is tested on arrival."""

from __future__ import annotations

import ast
import graphlib
import inspect
import re
from contextlib import nullcontext
from pathlib import Path
from types import ModuleType

import pytest
from tests.nodes import quiet_node

import zombiescope
from zombiescope.core import Blind, Host, Reading, Unreadable
from zombiescope.core.timeline import Timeline
from zombiescope.diagnosis.describe import describe
from zombiescope.diagnosis.examine import examine
from zombiescope.gate._image import Image
from zombiescope.gate._objection import OCCASIONS
from zombiescope.gate._rulings import rulings
from zombiescope.lab._scenario import missing
from zombiescope.members.rooms import Broken, members, names
from zombiescope.recorder import stacks

PACKAGE = Path(zombiescope.__file__).parent
FILES = sorted(PACKAGE.rglob("*.py"))
ROOMS = ("probes", "signs", "laws", "questions", "remedies", "outputs", "gate", "lab", "cli")

# Who may import whom, of ours. A member never imports a member of its own room.
MAY_IMPORT = {
    "core": {"core"},
    "members": {"core", "members"},
    "knowledge": {"core", "members", "knowledge"},
    "cgroups": {"core", "cgroups"},
    "derived": {"core", "knowledge", "derived"},
    "kernel": {"core", "kernel"},
    "probes": {"core", "knowledge", "cgroups", "probes", "kernel", "audit"},
    "recorder": {"core", "members", "derived", "recorder", "kernel", "profile"},
    "signs": {"core", "knowledge", "cgroups", "derived"},
    "laws": {"core", "knowledge", "cgroups", "derived"},
    "questions": {"core", "knowledge", "cgroups", "derived"},
    "remedies": {"core", "knowledge", "cgroups", "derived"},
    "diagnosis": {"core", "members", "knowledge", "diagnosis"},
    "compare": {"core", "members", "derived", "diagnosis", "compare"},
    "treatment": {"core", "members", "knowledge", "cgroups", "kernel", "audit", "treatment"},
    "outputs": {"core", "members", "knowledge", "outputs", "profile"},
    "profile": {"core", "members", "knowledge", "profile"},
    "audit": {"core", "kernel", "knowledge", "audit"},
    "gate": {"core", "members", "kernel", "knowledge", "cgroups", "audit", "gate"},
    "fleet": {"core", "members", "diagnosis", "compare", "recorder", "fleet", "profile"},
    "lab": {"core", "members", "kernel", "lab", "probes"},
}
# Only these rooms touch the machine; signs, laws, remedies and outputs know what the timeline knows.
PURE = (
    *("signs", "laws", "questions", "remedies", "outputs", "cgroups", "derived", "diagnosis", "compare", "profile"),
)
DOORS = {"os", "subprocess", "socket", "pathlib", "shutil", "ctypes", "fcntl", "mmap"}
HEAVY = {"duckdb": "fleet", "ray": "fleet", "starlette": "web", "uvicorn": "web"}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).parts[0].removesuffix(".py")


def member(room: str, name: str) -> ModuleType:
    found = members(room)[name]
    assert not isinstance(found, Broken), found
    return found


def imports(path: Path) -> list[tuple[str, bool]]:
    """Every module a file imports, and whether it does so at the top."""
    tree = ast.parse(path.read_text())
    found = []
    for node in ast.walk(tree):
        top = node in tree.body
        if isinstance(node, ast.Import):
            found += [(alias.name, top) for alias in node.names]
        elif isinstance(node, ast.ImportFrom) and node.module:
            found += [(f"{node.module}.{alias.name}", top) for alias in node.names]
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_file_is_small_and_says_what_it_is(path: Path) -> None:
    text = path.read_text()
    assert len(text.splitlines()) < 300
    words = ast.get_docstring(ast.parse(text))
    assert words and words.splitlines()[0].rstrip().endswith((".", ":", ",")), "the first line says what this file is"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_layers(path: Path) -> None:
    room = room_of(path)
    for name, top in imports(path):
        parts = name.split(".")
        if parts[0] in HEAVY:
            assert room == HEAVY[parts[0]] and not top, f"{parts[0]} belongs in functions of {HEAVY[parts[0]]}/"
        if room in PURE and parts[0] in DOORS:
            pytest.fail(f"{room}/ never touches the machine, but imports {parts[0]}")
        if parts[0] != "zombiescope" or len(parts) < 3 or room not in MAY_IMPORT:
            continue
        other, its_member = parts[1], parts[2]
        assert other in MAY_IMPORT[room], f"{room} may not import {other}"
        assert other != room or room not in ROOMS or its_member.startswith("_"), "a member never imports a sibling"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_doors(path: Path) -> None:
    """Commands are run by the door alone (the lab makes its own processes), and pure rooms open nothing."""
    tree = ast.parse(path.read_text())
    if any(name.split(".")[0] == "subprocess" for name, _ in imports(path)):
        assert path.relative_to(PACKAGE).as_posix() == "core/host.py" or room_of(path) in ("lab", "agent")
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    told = {
        call.func.id
        for call in calls
        if isinstance(call.func, ast.Name) and not any(it.arg == "file" for it in call.keywords)
    }
    assert room_of(path) not in PURE or not {"open", "print"} & told
    acts = [node for node in ast.walk(tree) if isinstance(node, ast.Attribute) and node.attr == "act"]
    assert not acts or path.relative_to(PACKAGE).as_posix() == "treatment/apply.py", "only apply acts"


def test_any_exception_is_caught_in_exactly_one_place() -> None:
    caught = [path for path in FILES if re.search(r"except (Base)?Exception\b|except:", path.read_text())]
    assert [path.relative_to(PACKAGE).as_posix() for path in caught] == ["members/rooms.py"]


@pytest.mark.parametrize("room", ROOMS)
def test_no_member_is_broken(room: str) -> None:
    assert not [(name, found.why) for name, found in members(room).items() if isinstance(found, Broken)]


@pytest.mark.parametrize("name", names("probes"))
def test_probe(name: str) -> None:
    probe = member("probes", name)
    assert probe.EVERY > 0
    assert probe.GIVES and all(re.fullmatch(r"[a-z][a-z0-9_]*", what) for what in probe.GIVES)
    assert list(inspect.signature(probe.read).parameters) == ["host"]
    assert {"Overhead", "Kernel"} <= describe(probe).sections.keys()


@pytest.mark.parametrize("name", names("probes"))
def test_every_probe_on_an_empty_machine_says_what_it_misses(name: str, tmp_path: Path) -> None:
    with pytest.raises(Unreadable) as missed:
        list(member("probes", name).read(Host(str(tmp_path), live=False)))
    assert missed.value.source.startswith(("/", "$ ")) and missed.value.why


@pytest.mark.parametrize("name", names("probes"))
def test_every_probe_gives_what_it_promises_here(name: str) -> None:
    probe = member("probes", name)
    try:
        with probe.watch(Host()) if hasattr(probe, "watch") else nullcontext(lambda: probe.read(Host())) as eye:
            seen = list(eye())
    except Unreadable as error:
        pytest.skip(f"not on this machine: {error}")
    assert {item.what for item in seen} <= set(probe.GIVES)
    for item in seen:
        assert isinstance(item, Reading | Blind)
        assert item.source.startswith(("/", "$ ")), "a source can be pasted into a shell"
        if isinstance(item, Reading):
            assert item.subject == "node" or re.match(r"[a-z]+:.", item.subject)


@pytest.mark.parametrize("name", names("signs"))
def test_sign(name: str) -> None:
    sign = member("signs", name)
    assert "_to_" not in name, "it would confuse the names of laws"
    assert list(inspect.signature(sign.find).parameters) == ["timeline"]
    assert {"Why it hurts", "False alarms"} <= describe(sign).sections.keys()
    given = {what for probe in names("probes") for what in member("probes", probe).GIVES} | set(stacks.GIVES)
    assert sign.NEEDS
    for need in sign.NEEDS:
        alternatives = {need} if isinstance(need, str) else set(need)
        assert alternatives <= given, "a need that nobody gives would blind the sign for ever"


@pytest.mark.parametrize("name", names("signs"))
def test_every_sign_is_blind_where_nobody_looked(name: str) -> None:
    case = examine(Timeline(), signs={name: member("signs", name)}, laws={})
    assert [(verdict.sign, verdict.state) for verdict in case.verdicts] == [(name, "blind")]
    assert not case.findings


@pytest.mark.parametrize("room", ("signs", "laws", "probes", "gate"))
def test_every_threshold_has_its_reason(room: str) -> None:
    for name in names(room):
        for threshold in describe(member(room, name)).thresholds:
            assert threshold.reason or threshold.name == "EVERY", f"{room}/{name}.{threshold.name}: why that number?"


@pytest.mark.parametrize("name", names("signs"))
def test_every_sign_is_silent_on_a_healthy_node(name: str, tmp_path: Path) -> None:
    """False alarms kill such tools. What the healthy node's recording does not hold, a sign must call blind."""
    case = examine(quiet_node(tmp_path), signs={name: member("signs", name)}, laws={})
    assert not case.findings and case.verdicts[0].state in ("clear", "blind")
    assert case.verdicts[0].evidence, "also a claim of being well, or of having looked in vain, carries its readings"


@pytest.mark.parametrize("name", names("laws"))
def test_law(name: str) -> None:
    law = member("laws", name)
    cause, _, effect = name.partition("_to_")
    assert {cause, effect} <= set(names("signs")), "a law is named after the two signs it joins"
    assert law.WITHIN >= 0
    assert list(inspect.signature(law.grounds).parameters) == ["cause", "effect", "timeline"]
    assert describe(law).summary.count(". ") == 0, "a law is one sentence"


def test_laws_never_circle() -> None:
    graph: dict[str, set[str]] = {}
    for name in names("laws"):
        cause, _, effect = name.partition("_to_")
        graph.setdefault(effect, set()).add(cause)
    assert len(list(graphlib.TopologicalSorter(graph).static_order())) >= len(graph)


@pytest.mark.parametrize("name", names("questions"))
def test_question(name: str) -> None:
    question = member("questions", name)
    assert question.ASKS.endswith("?")
    assert list(inspect.signature(question.answer).parameters) == ["timeline"]
    assert question.answer(Timeline()).state == "cannot tell", "where nobody looked, nothing is known"


@pytest.mark.parametrize("name", names("lab"))
def test_scenario(name: str) -> None:
    scenario = member("lab", name)
    known = set(names("signs"))
    assert {scenario.TRUTH.root, *scenario.TRUTH.chain, *scenario.TRUTH.silent} <= known | {""}
    assert not scenario.TRUTH.chain or scenario.TRUTH.chain[0] == scenario.TRUTH.root
    assert isinstance(missing(scenario.NEEDS), list) and 0 < scenario.SECONDS <= 60
    assert list(inspect.signature(scenario.run).parameters) == ["scale"]


@pytest.mark.parametrize("name", names("remedies"))
def test_remedy(name: str) -> None:
    remedy = member("remedies", name)
    assert remedy.CURES and set(remedy.CURES) <= set(names("signs"))
    assert list(inspect.signature(remedy.plan).parameters) == ["finding", "case", "timeline"]
    assert {"Safe", "Disruptive"} & describe(remedy).sections.keys() and "Does not fix" in describe(remedy).sections


@pytest.mark.parametrize("name", names("outputs"))
def test_output(name: str) -> None:
    assert list(inspect.signature(member("outputs", name).write).parameters) == ["case", "timeline", "out"]


@pytest.mark.parametrize("name", names("gate"))
def test_rule(name: str, tmp_path: Path) -> None:
    rule = member("gate", name)
    assert rule.WHEN and set(rule.WHEN) <= set(OCCASIONS)
    for function in (rule.look, rule.saw):
        assert list(inspect.signature(function).parameters) == ["image"]
    assert {"Why it matters", "Passes"} <= describe(rule).sections.keys()
    for ruling in rulings(Image(Host(str(tmp_path), live=False), allowed=()), set(names("gate")) - {name}):
        empty = "an empty root has nothing to object to, and nothing that could be passed"
        assert ruling.state == "skipped" or (not ruling.objections and ruling.unseen), empty


@pytest.mark.parametrize("name", names("cli"))
def test_verb(name: str) -> None:
    verb = member("cli", name)
    assert list(inspect.signature(verb.add_args).parameters) == ["parser"]
    assert list(inspect.signature(verb.run).parameters) == ["args"]
    assert verb.EXAMPLES.startswith("examples:\n  zombiescope " + name)
