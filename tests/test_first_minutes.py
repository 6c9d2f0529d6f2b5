"""A new user's walk, as docs/first-minutes.md has it: each command shows what the page shows, in that order."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.conftest import COMMAND, PROJECT

pytestmark = pytest.mark.e2e
WALK = (PROJECT / "docs/first-minutes.md").read_text()
README = (PROJECT / "README.md").read_text()
FOUND = 1  # the exit code of a problem found, and of a plan that is open


def steps() -> Iterator[tuple[str, list[str]]]:
    for block in re.findall(r"```console\n\$ (.*?)```", WALK, re.DOTALL):
        command, *lines = block.splitlines()
        yield command, [line for line in lines if line != "…"]


def test_the_walk(tmp_path: Path) -> None:
    taken = list(steps())
    assert [command.split()[1] for command, _ in taken] == ["diagnose", "explain", "view", "fix"]
    environ = os.environ | {"COLUMNS": "100", "TZ": "UTC"}
    for command, wanted in taken:
        program, *argv = command.split()
        assert program == "zombiescope"
        done = subprocess.run([COMMAND, *argv], capture_output=True, text=True, check=False, cwd=tmp_path, env=environ)
        assert done.returncode in (0, FOUND), done.stderr
        shown = iter((done.stdout + done.stderr).splitlines())
        for line in wanted:
            assert any(it.startswith(line) for it in shown), f"{command}: {line!r} is not shown, or not in this order"
    assert (tmp_path / "incident.html").stat().st_size > 100_000


def test_the_readme_s_first_commands_need_neither_root_nor_a_sick_node() -> None:
    first = re.findall(r"^    zombiescope (.*?) *(?:#.*)?$", README, re.MULTILINE)[:3]
    assert first[0] == "diagnose --sample" and len(first) == 3
