"""Members and knowledge from outside: found, run once, never the end of a report; root runs only root's."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from tests.conftest import Run
from tests.files import write
from tests.members.folders import AGENT, LAW, sign
from tests.nodes import QUIET

from zombiescope.core import Unreadable
from zombiescope.knowledge import tables
from zombiescope.members import entry_points, rooms
from zombiescope.members.outside import MOST_BYTES, listed, read_trusted, why_untrusted
from zombiescope.members.rooms import Broken, healthy, member, names, turned_away

NOBODY = 65534
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root is careful, and can give files away")
BAD = {
    "signs/exits.py": "import sys\nsys.exit(3)",
    "signs/raises.py": "class Mine(BaseException): ...\nraise Mine('no')",
    "signs/mute.py": "class Mute(Exception):\n    def __str__(self): raise self\nraise Mute",
    "signs/syntax.py": "x = (",
    "signs/nulls.py": "x = '\0'",
    "signs/shapeless.py": '"""Nothing in it."""',
    "signs/needs_a_word.py": sign().replace('("mounts",)', '"mounts"'),
    "signs/finds_nonsense.py": sign().replace('"many mounts"', "1 / 0").replace("100000", "0"),
    "signs/exits_late.py": sign().replace("    for period", "    raise SystemExit(7)\n    for period"),
    "signs/my-sign.py": sign(),
    "signs/x\ny.py": sign(),
    "signs/zombie_cgroups.py": sign("A stranger."),
    "laws/zombie_cgroups_to_nothing.py": LAW,
    "laws/saturated_core_to_zombie_cgroups.py": LAW,
    "laws/nameless.py": LAW,
    "probes/endless.py": '"""x"""\nEVERY = 0\nGIVES = ("x",)\ndef read(host): ...',
    "probes/junk.py": '"""x"""\nEVERY = 1\nGIVES = ("junk",)\ndef read(host): return [None]',
    "probes/words.py": '"""x"""\nfrom zombiescope.core import Reading\nEVERY = 1\nGIVES = ("words",)\n'
    'def read(host):\n    yield Reading(what="words", subject="node", value="many", at=host.now(), source="/x")',
    "remedies/for_nothing.py": '"""x"""\nCURES = ("no_such_sign",)\ndef plan(finding, case, timeline): ...',
    "questions/silent.py": '"""x"""\nASKS = ""\ndef answer(timeline): ...',
    "outputs/quits.py": "raise SystemExit",
    "gate/no_rule.py": '"""x"""',
    "lab/no_scenario.py": '"""x"""',
    "cli/no_verb.py": '"""x"""',
    "cli/late.py": '"""100% late."""\nEXAMPLES = "x"\ndef add_args(parser): raise OSError\ndef run(args): ...',
    "knowledge/words.toml": "not toml",
    "knowledge/kinds.toml": "[[agnt]]\nname = 'x'\n[agent]\nname = 'x'",
    "knowledge/entries.toml": '[[agent]]\nname = "x"\nsays = "y"\nunits = "x.service"\n[[timer]]\noften_seconds = "x"\n'
    '[[kernel_message]]\nkind = "x"\nholds = "y"\npattern = "("\n[[function]]\nfamily = 3\nnames = []\nsays = ""\n'
    '[[kernel]]\nname = "x"\nfixed = 5\nfault = ""\nfix = ""\n[[unit]]\nunits = [1]\nwhy = "x"\n'
    '[[ray_message]]\nhow = "x"\nholds = ""\npattern = ""\n[[blind_cause]]\nholds = ""\ndo = "x"\n'
    '[[package]]\npackages = "x"\nwhy = "y"\n[[symptom]]\nseen = "x"\nsigns = "y"\n[[drop]]\ncounter = "x"\n',
}


def uses(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(rooms.PATH, str(path))


def forget() -> None:
    """What was found is kept for the process; who changes sys.path has to say so."""
    for kept in (entry_points._all.cache_clear, rooms._found.cache_clear, rooms._met.cache_clear):
        kept()
    tables._outside.cache_clear()


def diagnosed(zombiescope: Run, path: Path, *more: str) -> dict[str, tuple[str, str]]:
    env = {**os.environ, rooms.PATH: str(path)}
    done = zombiescope("diagnose", str(QUIET), "--format", "json", *more, env=env)
    assert done.returncode in (1, 3), done.stderr
    return {it["sign"]: (it["state"], it["says"]) for it in json.loads(done.stdout)["verdicts"]}


def test_a_folder_s_members_and_knowledge_are_there(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = {"signs/many_mounts.py": sign(), "laws/many_mounts_to_mount_explosion.py": LAW, "knowledge/a.toml": AGENT}
    uses(write(tmp_path, files), monkeypatch)
    assert "many_mounts" in names("signs") and "many_mounts" in healthy("signs")
    assert "many_mounts_to_mount_explosion" in healthy("laws")
    assert member("signs", "many_mounts") is member("signs", "many_mounts"), "it is run once"
    assert not turned_away() and not tables.broken()


def test_the_first_folder_wins_and_the_next_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = (write(tmp_path / it, {"signs/mine.py": sign(it)}) for it in ("A.", "B."))
    monkeypatch.setenv(rooms.PATH, f"{first}:{second}:{tmp_path}/nowhere")
    assert (healthy("signs")["mine"].__doc__ or "").startswith("A.")
    away = turned_away()
    assert away["signs/mine"].startswith(f"a member of this name is in {first}")
    assert away[f"{rooms.PATH}/{tmp_path}/nowhere"] == "no such file or directory"


def test_ours_wins_over_a_stranger_of_the_same_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uses(write(tmp_path, {"signs/zombie_cgroups.py": sign("A stranger.")}), monkeypatch)
    assert healthy("signs")["zombie_cgroups"].__name__ == "zombiescope.signs.zombie_cgroups"
    assert turned_away()["signs/zombie_cgroups"].startswith("a member of this name comes with zombiescope")


def test_a_member_may_make_dataclasses_and_its_source_is_what_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from zombiescope.diagnosis.describe import describe

    shape = "\nfrom dataclasses import dataclass\n\n\n@dataclass(slots=True)\nclass Mine:\n    x: 'int' = 1\n"
    uses(write(tmp_path, {"signs/shaped.py": sign() + shape}), monkeypatch)
    made = healthy("signs")["shaped"]
    (tmp_path / "signs" / "shaped.py").write_text("changed since")
    assert [(it.name, it.reason) for it in describe(made).thresholds] == [("MANY", "a reason")]


def test_broken_members_never_cost_another_s_answer(zombiescope: Run, tmp_path: Path) -> None:
    seen = diagnosed(zombiescope, write(tmp_path, {**BAD, "signs/many_mounts.py": sign(many=1)}))
    assert seen["zombie_cgroups"][0] == "clear" and seen["many_mounts"][0] == "found"
    says = {
        "exits": "SystemExit: 3 (exits.py:2)",
        "raises": "Mine: no",
        "mute": "Mute: it has no text",
        "syntax": "SyntaxError",
        "nulls": "",
        "shapeless": "it has no NEEDS",
        "needs_a_word": "its NEEDS is not",
        "finds_nonsense": "ZeroDivisionError",
        "exits_late": "SystemExit: 7",
        "signs/my-sign": "not a name for a member",
        "signs/x\\x0ay": "not a name for a member",
        "signs/zombie_cgroups": "a member of this name comes with zombiescope",
        "laws/zombie_cgroups_to_nothing": "it joins nothing, and there is no such sign",
        "laws/saturated_core_to_zombie_cgroups": "it closes a circle: saturated_core → zombie_cgroups → ",
        "laws/nameless": "a law is called CAUSE_to_EFFECT",
        "probes/endless": "its EVERY is not a number of seconds above 0",
        "remedies/for_nothing": "its CURES names no_such_sign, and there is no such sign",
        "questions/silent": "its ASKS is not a text",
        "outputs/quits": "SystemExit",
        "gate/no_rule": "it has no WHEN",
        "lab/no_scenario": "it has no TRUTH",
        "cli/no_verb": "it has no EXAMPLES",
        "knowledge/words.toml": f"{tmp_path}/knowledge/words.toml: not TOML",
        "knowledge/kinds.toml": f"{tmp_path}/knowledge/kinds.toml: 'agnt' is not a kind of knowledge",
    }
    broken = {name: said for name, (state, said) in seen.items() if state == "broken"}
    assert broken.keys() == says.keys() | {"knowledge/entries.toml"}
    for name, words in says.items():
        assert broken[name].startswith(words), name


def test_an_entry_of_any_kind_that_is_wrong_costs_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    uses(write(tmp_path, {"knowledge/a.toml": BAD["knowledge/entries.toml"]}), monkeypatch)
    wrong = tables.broken()[str(tmp_path / "knowledge" / "a.toml")]
    assert all(f"[[{kind}]] number 1: " in wrong for kind in tables.KINDS)


@pytest.mark.parametrize(
    "argv", [("--help",), ("explain",), ("explain", "--map"), ("explain", "--map", "--format", "svg"), ("lab", "list")]
)
def test_no_verb_fails_for_them(argv: tuple[str, ...], zombiescope: Run, tmp_path: Path) -> None:
    env = {**os.environ, rooms.PATH: str(write(tmp_path, BAD))}
    zombiescope(*argv, expect=0, env=env)


@pytest.mark.parametrize(
    ("argv", "says"),
    [
        (("late",), "late is broken: OSError"),
        (("no_verb",), "no_verb is broken: it has no EXAMPLES"),
        (("diagnose", str(QUIET), "--format", "quits"), "outputs/quits is broken: SystemExit"),
    ],
)
def test_who_asks_for_a_broken_one_is_told_why(
    argv: tuple[str, ...], says: str, zombiescope: Run, tmp_path: Path
) -> None:
    done = zombiescope(*argv, expect=2, env={**os.environ, rooms.PATH: str(write(tmp_path, BAD))})
    assert says in done.stderr.splitlines()[-1]


def test_a_fifo_and_a_giant_are_not_opened(zombiescope: Run, tmp_path: Path) -> None:
    write(tmp_path, {"signs/giant.py": "#" * (MOST_BYTES + 1), "knowledge/giant.toml": "#" * (MOST_BYTES + 1)})
    for name in ("signs/fifo.py", "knowledge/fifo.toml", "laws"):
        os.mkfifo(tmp_path / name)
    seen = diagnosed(zombiescope, tmp_path)
    for name in ("fifo", "knowledge/fifo.toml"):
        assert seen[name][0] == "broken" and "not a regular file" in seen[name][1]
    for name in ("giant", "knowledge/giant.toml"):
        assert seen[name][0] == "broken" and "larger than 1,048,576 bytes" in seen[name][1]
    assert seen[f"laws/{tmp_path}/laws"] == ("broken", "not a directory")


@needs_root
@pytest.mark.parametrize("what", ["", "signs", "signs/mine.py", "knowledge", "knowledge/a.toml"])
def test_root_refuses_what_others_can_change(what: str, zombiescope: Run, tmp_path: Path) -> None:
    write(tmp_path, {"signs/mine.py": f"open({str(tmp_path / 'ran')!r}, 'w')\n" + sign(), "knowledge/a.toml": AGENT})
    os.chown(tmp_path / what, NOBODY, 0)
    seen = diagnosed(zombiescope, tmp_path)
    refused = "knowledge/a.toml" if what.startswith("knowledge") else "mine"
    assert seen[refused][0] == "broken" and f"belongs to user {NOBODY}, who could change it" in seen[refused][1]
    assert (tmp_path / "ran").exists() == (refused != "mine")


@needs_root
def test_root_walks_every_link_and_reads_what_it_has_checked(tmp_path: Path) -> None:
    good = write(tmp_path, {"good/x.py": "x = 1"}) / "good" / "x.py"
    theirs = tmp_path / "theirs"
    theirs.mkdir()
    (theirs / "link").symlink_to(good)
    os.chown(theirs, NOBODY, 0)
    (tmp_path / "one").symlink_to("theirs/link")  # our link, through a folder of theirs, to our file
    (tmp_path / "round").symlink_to("round")
    (tmp_path / "two").symlink_to("good/../good/x.py")
    assert f"{theirs} belongs to user {NOBODY}" in why_untrusted(str(tmp_path / "one"))
    assert "too many links" in why_untrusted(str(tmp_path / "round"))
    assert not why_untrusted(str(tmp_path / "two")) and read_trusted(str(tmp_path / "two")) == b"x = 1"
    good.chmod(0o666)
    assert "can be written by others than root" in why_untrusted(str(tmp_path / "two"))


def test_a_folder_of_thousands_is_none_of_members(tmp_path: Path) -> None:
    for number in range(1001):
        (tmp_path / f"m{number}.py").touch()
    with pytest.raises(Unreadable, match="more than 1,000 files"):
        listed(str(tmp_path))


def test_entry_points(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    declared = """; a comment
[console_scripts]
x = y
[zombiescope.signs]
# another
good = strange_package.good [extra]
gone = strange_package.gone
thing = strange_package.good:NEEDS
a-dash = strange_package.good
zombie_cgroups = strange_package.good
py = strange_package.py
[zombiescope.knowledge]
known = strange_package.knowledge
lost = strange_package.nowhere
nobody = no_such_package
"""
    files = {
        "strange_package-1.dist-info/entry_points.txt": declared,
        "strange_package/__init__.py": "raise AssertionError('knowledge is read without importing anything')",
        "strange_package/good.py": sign(),
        "strange_package/py.py": sign(),
        "strange_package/knowledge/a.toml": AGENT,
    }
    write(tmp_path, files)
    os.mkdir(tmp_path / "fifo-1.dist-info")
    os.mkfifo(tmp_path / "fifo-1.dist-info" / "entry_points.txt")
    monkeypatch.syspath_prepend(str(tmp_path))
    forget()
    try:
        broken = {where.removeprefix("entry point "): why for where, why in tables.broken().items()}
        assert broken.keys() == {"strange_package.nowhere", "no_such_package"}
        found = [it.path for it in tables._outside(tables._places()) if it.tables]
        assert str(tmp_path / "strange_package" / "knowledge" / "a.toml") in found
        (tmp_path / "strange_package" / "__init__.py").write_text("")
        met = {name: member("signs", name) for name in ("good", "gone", "thing", "py")}
        assert met["good"].NEEDS == met["py"].NEEDS == ("mounts",)  # type: ignore[union-attr]
        assert isinstance(met["gone"], Broken) and "No module named 'strange_package.gone'" in met["gone"].why
        assert isinstance(met["thing"], Broken) and "a member is a module" in met["thing"].why
        assert {"signs/a-dash", "signs/zombie_cgroups"} <= turned_away().keys()
    finally:
        monkeypatch.undo()
        forget()


def test_knowledge_of_one_s_own(zombiescope: Run, tmp_path: Path) -> None:
    root = write(
        tmp_path / "root",
        {
            "proc/x": "",
            "etc/systemd/system/shipper.service": "[Service]\nExecStart=/bin/shipper\n",
            "etc/os-release": "",
        },
    )
    argv = ("audit", "--root", str(root), "--all", "--format", "json")
    plain = json.loads(zombiescope(*argv).stdout)["units"]
    known = write(tmp_path / "known", {"a.toml": AGENT})
    told = json.loads(zombiescope(*argv, "--knowledge", str(known)).stdout)["units"]
    assert [it["agent"] for it in plain] == [""] and [it["agent"] for it in told] == ["shipper"]
    for verb in ("diagnose", "audit", "gate", "fix", "explain"):
        done = zombiescope(verb, "--knowledge", "/nowhere", expect=2)
        assert done.stderr == "zombiescope: --knowledge /nowhere: no such folder\n"
    write(known, {"b.toml": "[[agnt]]"})
    assert "knowledge/b.toml" in zombiescope("explain", "--knowledge", str(known), expect=0).stderr
