"""Completion scripts in real shells: everything of the parsers is offered, in its place, and nothing else."""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.cli.shells import Shell, shell
from tests.conftest import CANNOT, Run

from zombiescope.__main__ import command_parser
from zombiescope.cli._arguments import complete
from zombiescope.cli._commands import Command, Takes, command_of
from zombiescope.cli.completion import SHELLS, script
from zombiescope.members.rooms import load, names

pytestmark = pytest.mark.e2e
COMMANDS = list(command_of(command_parser()).all())
HERE = ["a file.txt", "perf.data", "rec", "roots"]  # the working folder: two files, two folders
FOLDERS = ["rec", "roots"]


@pytest.fixture(scope="module", params=SHELLS)
def tab(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Shell]:
    if not shutil.which(request.param):
        pytest.skip(f"{CANNOT}{request.param} is not installed")
    own, folder = tmp_path_factory.mktemp("own"), tmp_path_factory.mktemp("folder")
    for name in HERE:
        (folder / name).mkdir() if name in FOLDERS else (folder / name).write_text("")
    with shell(request.param, script(request.param), own, folder) as found:
        yield found


def plain(offered: list[str]) -> list[str]:
    """Without what shells add in their own ways: the slash of a folder, the option before a value, quoting."""
    return sorted({it.rstrip("/").removeprefix("--format=").replace("\\ ", " ") for it in offered})


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("", names("cli")),
        ("cen", ["census"]),
        ("diagnose --for", ["--format"]),
        ("diagnose --format ", names("outputs")),
        ("diagnose --format=js", ["json"]),
        ("diagnose ", HERE),
        ("diagnose r", FOLDERS),
        ("diagnose --from 05:10 --to 2025-03-04T05:06:07 ", HERE),
        ("diagnose --exit-style=ci perf", ["perf.data"]),
        ("diagnose --seconds 3 --format ", names("outputs")),
        ("explain zombie_cgroups_to_cg", ["zombie_cgroups_to_cgroup_walker"]),
        ("explain --map --format ", ["dot", "json", "svg", "text"]),
        ("fix --appl", ["--apply"]),
        ("fix --prove --appl", ["--apply"]),
        ("fix --prove 5 --apply zombie_c", ["zombie_cgroups"]),
        ("fix stop_le", ["stop_leaking_unit"]),
        ("fix --recording ", FOLDERS),
        ("gate --skip ", names("gate")),
        ("gate --skip cgroup_mode --skip looping", ["looping_unit"]),
        ("gate --root perf.d", ["perf.data"]),
        ("info ", HERE),
        ("prove rec ", FOLDERS),
        ("view perf.data ", HERE),
        ("view -o a", ["a file.txt"]),
        ("lab ", ["clean", "fleet", "list", "run", "score"]),
        ("lab run throttl", ["throttled"]),
        ("lab run --diagnose throttl", ["throttled"]),
        ("lab score --format ", ["json", "text"]),
        ("completion ", sorted(SHELLS)),
    ],
)
def test_what_tab_offers(tab: Shell, line: str, offered: list[str]) -> None:
    assert plain(tab.offers(f"zombiescope {line}")) == sorted(offered)


@pytest.mark.parametrize("command", COMMANDS, ids=lambda it: it.name)
def test_every_option_and_every_command_below_is_offered(tab: Shell, command: Command) -> None:
    long = {flag for option in command.options for flag in option.flags if flag.startswith("--")}
    assert long <= set(tab.offers(f"{command.name} --"))
    assert {each.words[-1] for each in command.below} <= set(tab.offers(f"{command.name} "))


@pytest.mark.parametrize("name", SHELLS)
def test_every_value_is_in_the_script(name: str) -> None:
    text = script(name)
    for argument in (it for command in COMMANDS for it in (*command.options, *command.places)):
        flags = [flag if name != "fish" else flag.lstrip("-") for flag in argument.flags]
        assert all(word in text for word in (*flags, *argument.words))
    assert "python" not in text, "no program is started while one types"


def test_what_a_path_is_called_says_that_it_is_completed() -> None:
    """A verb that takes a FILE or a DIR says so to `complete` as well."""
    wanted = re.compile(r"(FILE|DIR|SOURCE|RECORDING|FOLDER)\b")
    for command in COMMANDS:
        for it in (*command.options, *command.places):
            if it.takes is not Takes.NONE and wanted.search(it.metavar):
                assert it.path, f"{command.name}: add complete(parser, …=FILE) for {it.metavar}"


def test_words_that_shells_would_run_are_only_words(tmp_path: Path) -> None:
    trap = tmp_path / "ran"
    parser = argparse.ArgumentParser("zombiescope")
    words = (f"$(touch {trap})", f"`touch {trap}`", "it's", 'a"b', "x;y")
    parser.add_argument("--kind", choices=words, help=f"it's $(touch {trap}) [a]: `touch {trap}` 100%% \\")
    parser.add_argument("folder")
    complete(parser, folder="folder")
    for name in filter(shutil.which, SHELLS):
        text = str(load("cli", f"_complete_{name}").script(command_of(parser)))
        with shell(name, text, tmp_path, tmp_path) as found:
            found.offers("zombiescope --kind ")
            found.offers("zombiescope --")
    assert not trap.exists()


def test_a_stranger_of_a_folder_is_offered(zombiescope: Run, tmp_path: Path) -> None:
    (tmp_path / "signs").mkdir()
    (tmp_path / "signs/lonely_gpu.py").write_text('"""A sign."""\n')
    env = {**os.environ, "ZOMBIESCOPE_PATH": str(tmp_path)}
    for name in SHELLS:
        assert "lonely_gpu" in zombiescope("completion", name, env=env, expect=0).stdout


def test_the_script_is_whole_for_a_shell_that_reads_it(tmp_path: Path) -> None:
    for name in filter(shutil.which, SHELLS):
        (tmp_path / name).write_text(script(name))
        done = subprocess.run([name, "-n", str(tmp_path / name)], capture_output=True, text=True, check=False)
        assert (done.returncode, done.stderr) == (0, "")
