"""What we start gets nothing from the working directory or the caller's environment."""

from __future__ import annotations

import ast
import os
import subprocess
from pathlib import Path

import pytest
from tests.conftest import PROJECT, Run

from zombiescope.core import Host
from zombiescope.places.own_python import PATH, environment, own_python

TRAPS = ("numpy", "json", "argparse", "re", "zombiescope", "dbus_fast", "sitecustomize", "usercustomize", "rich")


@pytest.fixture
def hostile(tmp_path: Path) -> Path:
    """A folder of a stranger: modules, and programs, that leave a note when they are run."""
    folder = tmp_path / "strangers"
    folder.mkdir()
    note = tmp_path / "note"
    for name in TRAPS:
        (folder / f"{name}.py").write_text(f"open({str(note)!r}, 'a').write({name!r} + '\\n')\nraise SystemExit(99)\n")
    for name in ("systemctl", "sh", "ip", "unshare", "nsenter"):
        (folder / name).write_text(f"#!/bin/sh\necho {name} >> {note}\nexit 99\n")
        (folder / name).chmod(0o755)
    return folder


def trapped(hostile: Path) -> str:
    note = hostile.parent / "note"
    return note.read_text() if note.exists() else ""


def test_our_own_modules_import_nothing_from_the_working_directory(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a person pastes the command from the plan, with variables that lead Python astray."""
    monkeypatch.setenv("PYTHONPATH", str(hostile))
    monkeypatch.setenv("PYTHONSTARTUP", str(hostile / "json.py"))
    for module in ("treatment.purge_command", "treatment.napi_command"):
        argv = own_python(f"zombiescope.{module}", "--help")
        done = subprocess.run(argv, cwd=hostile, capture_output=True, text=True, check=False)
        assert done.returncode == 0 and "usage: " in done.stdout, done.stderr
    assert trapped(hostile) == ""


def test_our_own_modules_are_this_package_and_no_other_copy() -> None:
    import zombiescope

    code = own_python("zombiescope.places.own_python")[2]
    assert os.path.dirname(os.path.dirname(code)) == os.path.dirname(os.path.abspath(zombiescope.__file__))


def test_a_command_gets_a_safe_path_and_no_variable_that_is_not_ours(
    hostile: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(hostile)
    monkeypatch.setenv("PATH", f".:{hostile}")
    monkeypatch.setenv("ENV", str(hostile / "sh"))
    monkeypatch.setenv("PAGER", str(hostile / "sh"))
    monkeypatch.setenv("ZOMBIESCOPE_LEDGER", "/x")
    said = Host().run("sh", "-c", "pwd; env")
    variables = dict(line.partition("=")[::2] for line in said.splitlines()[1:])
    assert said.splitlines()[0] == "/" and variables["PATH"] == PATH
    assert variables["ZOMBIESCOPE_LEDGER"] == "/x" and not {"PAGER", "ENV", "PYTHONPATH"} & variables.keys()
    assert Host().act(("sh", "-c", "pwd")) == "/\n"
    assert trapped(hostile) == "" and all(os.path.isabs(it) for it in environment()["PATH"].split(":"))


def test_no_program_is_started_without_saying_where_and_with_which_variables() -> None:
    """In all of the package, the lab included: what is left out is the caller's."""
    starts, careless = 0, []
    for path in sorted((PROJECT / "src").rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Call) and ast.unparse(node.func) in ("subprocess.run", "subprocess.Popen"):
                starts += 1
                if not {"cwd", "env"} <= {it.arg for it in node.keywords}:
                    careless.append(f"{path.name}:{node.lineno}")
    assert starts > 10 and careless == []


@pytest.mark.kernel
@pytest.mark.usefixtures("memory_cgroups")
@pytest.mark.parametrize(
    "argv",
    [
        ("fix", "purge_zombies", "--apply", "--seconds", "1", "--hz", "0"),
        pytest.param(("lab", "run", "crash_loop"), marks=pytest.mark.long),
    ],
    ids=" ".join,
)
def test_fix_and_the_lab_in_a_stranger_s_folder(
    argv: tuple[str, ...], hostile: Path, zombiescope: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As root, with real dying cgroups to purge and real faults to make."""
    from zombiescope.lab._zombies import leaked

    monkeypatch.setenv("ZOMBIESCOPE_LEDGER", str(hostile.parent / "ledger"))
    with leaked(1009, label="hostile", folder=str(hostile.parent)):
        done = zombiescope(*argv, cwd=hostile)
    assert trapped(hostile) == "", done.stderr
    assert done.returncode in (0, 1), done.stderr
    assert "no plan for it" not in done.stderr
