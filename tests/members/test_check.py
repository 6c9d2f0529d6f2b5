"""`zombiescope check`: silent on a good folder, one line for each thing that is wrong, and never a traceback."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import PROJECT, Run
from tests.files import write
from tests.members.folders import AGENT, LAW, sign
from tests.members.test_outside import BAD, NOBODY, needs_root

from zombiescope.conformance._apart import apart
from zombiescope.conformance._complaint import Complaint


def checked(zombiescope: Run, path: Path, expect: int = 1) -> list[dict[str, Any]]:
    complaints: list[dict[str, Any]]
    complaints = json.loads(zombiescope("check", str(path), "--format", "json", expect=expect).stdout)["complaints"]
    return complaints


def test_a_good_folder_has_no_complaint(zombiescope: Run, tmp_path: Path) -> None:
    files = {"signs/many_mounts.py": sign(), "laws/many_mounts_to_mount_explosion.py": LAW, "knowledge/a.toml": AGENT}
    done = zombiescope("check", str(write(tmp_path, files)), expect=0)
    assert done.stdout == "3 checked, no complaints\n" and not done.stderr


def test_our_own_example_passes(zombiescope: Run) -> None:
    assert not checked(zombiescope, PROJECT / "examples" / "own-sign" / "src" / "own_sign", expect=0)


WRONG: dict[str, tuple[str, int | None, str]] = {
    "signs/finds.py": (sign(many=0), 16, "on a healthy node it finds: many mounts"),
    "signs/needs.py": (sign().replace('"mounts"', '"nobody_gives"'), 12, "it needs nobody_gives"),
    "signs/takes.py": (sign().replace("(timeline: T", "(line: T"), 16, "it has find(line)"),
    "signs/bare.py": (sign().replace("  # a reason", ""), 13, "MANY has no reason"),
    "signs/painless.py": (sign().replace("Why it hurts", "Pain"), 1, "its docstring has no “Why it hurts: …”"),
    "signs/imports.py": (sign().replace("Iterator\n\n", "Iterator\nimport os\n\n", 1), 8, "but it imports os"),
    "signs/prints.py": (sign() + "print(1)\n", 19, "signs/ never calls print"),
    "signs/long.py": (sign() + "\n" * 300, 300, "318 lines"),
    "signs/meets.py": (sign() + "from zombiescope.signs import fork_storm\n", 19, "it imports zombiescope.signs"),
    "signs/a_to_b.py": (sign(), None, "its name looks like a law's"),
    "signs/Bad.py": (sign(), None, "not a name for a member"),
    "laws/fork_storm_to_nothing.py": (LAW, None, "it joins nothing, and there is no such sign"),
    "laws/saturated_core_to_fork_storm.py": (LAW, None, "it closes a circle: saturated_core → fork_storm → "),
    "laws/fork_storm_to_oom_kill.py": (LAW.replace("mounts.", "mounts. So."), 1, "more than one sentence"),
    "probes/p.py": ('"""P."""\nEVERY = 1\nGIVES = ("p",)\ndef read(host): return []', 4, "is not noticed"),
    "outputs/o.py": ('"""O."""\ndef write(case, timeline, out): ...', 2, "it writes nothing"),
    "questions/q.py": ('"""Q."""\nASKS = "x"\ndef answer(timeline): ...', None, "it fails: AttributeError"),
    "knowledge/key.toml": (AGENT.replace("units =", "unit ="), 1, "there is no key 'unit'"),
    "knowledge/second.toml": (AGENT + "[[agent]]\nname = 1\n", 12, "[[agent]] number 2: "),
    "knowledge/cut.toml": (AGENT + "x = \n", 12, "not TOML"),
    "sign/a.py": (sign(), None, "there is no such room"),
}


@pytest.fixture(scope="module")
def complaints(zombiescope: Run, tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """Of one folder with all that is wrong: each start of the command costs as much as all the checks."""
    return checked(zombiescope, write(tmp_path_factory.mktemp("wrong"), {file: it[0] for file, it in WRONG.items()}))


@pytest.mark.parametrize("file", WRONG)
def test_what_is_wrong_is_named_with_its_line(file: str, complaints: list[dict[str, Any]]) -> None:
    _, line, says = WRONG[file]
    room = file.partition("/")[0]
    found = [it for it in complaints if it["file"].endswith((f"/{file}", f"/{room}"))]
    assert [(it["line"], it["mend"] != "") for it in found if says in it["says"]] == [(line, True)], found


def test_a_folder_without_a_room(zombiescope: Run, tmp_path: Path) -> None:
    (found,) = checked(zombiescope, write(tmp_path, {"other/a.py": sign()}))
    assert "there is nothing to check" in found["says"] and found["mend"]


@pytest.mark.parametrize("package", ["mine", "src/mine"])
def test_a_project_with_one_package(package: str, zombiescope: Run, tmp_path: Path) -> None:
    write(tmp_path, {f"{package}/signs/a.py": sign(), "README.md": "", "docs/a.md": ""})
    assert zombiescope("check", str(tmp_path), expect=0).stdout == "1 checked, no complaints\n"
    write(tmp_path, {"other/signs/b.py": sign()})
    assert "nothing to check" in zombiescope("check", str(tmp_path), expect=1).stdout, "which of the two is not known"


def test_whatever_is_in_the_folder(zombiescope: Run, tmp_path: Path) -> None:
    write(tmp_path, {**BAD, "signs/ends.py": "import os\nos._exit(0)", "signs/dies.py": "import os\nos.abort()"})
    for name in ("signs/fifo.py", "knowledge/fifo.toml", "audit", "signs2"):
        os.mkfifo(tmp_path / name)
    (tmp_path / "signs" / "folder.py").mkdir()
    (tmp_path / "signs" / "loop.py").symlink_to("loop.py")
    done = zombiescope("check", str(tmp_path), expect=1)
    complained = {line.split(": ")[0].split(":")[0] for line in done.stdout.splitlines()[:-1]}
    good = {"knowledge/known.toml"}
    wanted = {str(tmp_path / name).replace("\n", "\\x0a") for name in BAD if name not in good}
    assert wanted <= complained
    assert "it ends the process that runs it (code 0)" in done.stdout and "(signal 6)" in done.stdout


@pytest.mark.parametrize("path", ["/nowhere", "/etc/passwd"])
def test_no_such_folder_is_a_user_s_mistake(path: str, zombiescope: Run) -> None:
    assert len(zombiescope("check", path, expect=2).stderr.splitlines()) == 1


@needs_root
def test_root_does_not_run_what_others_can_change(zombiescope: Run, tmp_path: Path) -> None:
    mine = write(tmp_path / "mine", {"signs/a.py": sign() + f"open({str(tmp_path / 'ran')!r}, 'w')\n"})
    os.chown(mine, NOBODY, 0)
    says = [it["says"] for it in checked(zombiescope, mine)]
    assert any(it.startswith(f"not run: not trusted by root: {mine} belongs to user {NOBODY}") for it in says)
    assert "signs/ never calls open" in says, "what needs no running is checked all the same"
    assert not (tmp_path / "ran").exists()


def test_what_does_not_come_back_is_ended() -> None:
    def wait() -> list[Complaint]:
        while True:
            pass

    assert [it.says for it in apart(wait, patience=0.5)] == ["no answer within 0 s"]
