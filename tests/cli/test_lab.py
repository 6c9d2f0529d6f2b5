"""`zombiescope lab`: what there is to be seen, and mistakes told in words."""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path

import pytest
from tests.conftest import COMMAND, Run

from zombiescope.members.rooms import names


@pytest.mark.e2e
def test_every_scenario_is_listed_with_its_truth_and_needs(zombiescope: Run) -> None:
    rows = json.loads(zombiescope("lab", "list", "--format", "json", expect=0).stdout)
    assert [row["name"] for row in rows] == names("lab")
    told = {row["name"]: row["truth"] for row in rows}
    assert told["quiet"] == "no fault" and told["zombie_walk"].startswith("zombie_cgroups → cgroup_walker")
    lines = zombiescope("lab", "list", expect=0).stdout.splitlines()
    assert len(lines) == len(rows) and all(line.count("\t") == 3 for line in lines)


@pytest.mark.e2e
@pytest.mark.parametrize(
    ("argv", "words"),
    [
        (("run", "nothing"), "'nothing': no such scenario"),
        (("score", "--only", "quiet,nothing"), "'nothing': no such scenario"),
        ((), "required"),
    ],
)
def test_a_mistake_is_told(zombiescope: Run, argv: tuple[str, ...], words: str) -> None:
    done = zombiescope("lab", *argv, expect=2)
    assert words in done.stderr and "Traceback" not in done.stderr


@pytest.mark.e2e
@pytest.mark.kernel
def test_a_fault_is_made_and_the_truth_about_it_told(zombiescope: Run) -> None:
    done = zombiescope("lab", "run", "stat_walker", "--diagnose", expect=0)
    assert "cgroup_walker process:zslab-walker[" in done.stdout and "right" in done.stdout


@pytest.mark.e2e
@pytest.mark.kernel
@pytest.mark.beside
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_told_to_end_it_takes_everything_away_first(number: signal.Signals) -> None:
    process = subprocess.Popen([COMMAND, "lab", "run", "defunct", "--keep", "60"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None and "it concerns process:zslab-neglect[" in process.stderr.readline()
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    assert children
    process.send_signal(number)
    process.communicate(timeout=30)
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]
