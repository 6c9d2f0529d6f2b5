"""Faults of the lab really happen and are told as they are; controls accuse nobody; the machine is as it was before.

One scenario; `make test-long` judges the others, as `zombiescope lab score` does.
"""

from __future__ import annotations

import json
import signal
import subprocess
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from tests.conftest import CANNOT, COMMAND
from tests.lab.machine_state import changes

from zombiescope.core import UserError
from zombiescope.lab import pinterest
from zombiescope.lab._bench import diagnosed, undisturbed
from zombiescope.lab._scenario import missing
from zombiescope.members.rooms import healthy

pytestmark = [pytest.mark.kernel, pytest.mark.usefixtures("memory_cgroups", "as_before")]
ELSEWHERE = {  # each is judged there, and more is asked of it
    "crash_loop": "test_units.py",
    "leak_beside_crash_loop": "test_units.py",
    "pinterest": "test_incident.py",
    "stat_walker": "cli/test_lab.py",
}
QUICK = ("quiet",)  # test_incident.py has the longest chain
# A fault needs a core of its own, and machines have neighbours: what is not seen at once may be seen the next time.
# An innocent who is accused is accused once too often.
ATTEMPTS = 3


def judged() -> list[Any]:
    every = [(name, it) for name, it in healthy("lab").items() if name not in ELSEWHERE]
    return [pytest.param(name, it, id=name, marks=() if name in QUICK else pytest.mark.long) for name, it in every]


@pytest.mark.parametrize(("name", "scenario"), judged())
def test_the_truth_is_told(name: str, scenario: ModuleType) -> None:
    _skip_without(scenario)
    try:
        for _ in range(ATTEMPTS):
            run = undisturbed(name, scenario, 1.0, print)
            if run.judgement.right or not scenario.TRUTH.root:
                break
    except UserError as error:
        pytest.skip(CANNOT + str(error))
    said = [[f"{it['sign']} {it['subject']}" for it in chain] for chain in run.told["chains"]]
    assert run.judgement.right, (
        run.judgement,
        f"{run.idle:.1f} cores idle",
        said,
        [it for it in run.told["verdicts"] if it["state"] != "clear"],
    )
    assert not [it for it in run.told["verdicts"] if it["state"] == "broken"]


@pytest.mark.long
def test_after_a_score_the_machine_is_as_before() -> None:
    """Thousands of mounts, twice; told right or not. Faults that could leave more are checked where they are judged."""
    argv = [str(COMMAND), "lab", "score", "--only", "mounts", "--runs", "2", "--seed", "7", "--format", "json"]
    done = subprocess.run(argv, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode in (0, 1), done.stderr
    told = json.loads(done.stdout)
    assert told["seed"] == 7 and [it["name"] for it in told["runs"]] == ["mounts", "mounts"]
    assert told["faults"] == len(told["runs"]) and all(it["seconds"] > 0 for it in told["runs"])


@pytest.mark.long
def test_a_score_that_is_stopped_gives_what_it_has() -> None:
    argv = [str(COMMAND), "lab", "score", "--only", "mounts", "--runs", "5", "--seed", "7", "--format", "json"]
    process = subprocess.Popen(argv, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        while "cores were idle" not in (said := process.stderr.readline()):
            assert said, "it ended by itself"
        process.send_signal(signal.SIGINT)
        out, said = process.communicate(timeout=60)
    finally:
        process.kill()
    told = json.loads(out)
    assert process.returncode == 1 and "stopped: this is the score of 1 runs of 5" in said
    assert len(told["runs"]) == told["faults"] == 1 and told["runs_left_out"] == 4


@pytest.mark.parametrize("name", ["crash_loop", "realtime_hog", "container_throttled", "mounts", "page_cache_stream"])
def test_what_a_killed_run_leaves_is_removed(name: str, as_before: set[str]) -> None:
    _skip_without(healthy("lab")[name])
    process = subprocess.Popen([COMMAND, "lab", "run", name, "--keep", "100"], stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    try:
        if "it concerns " not in (said := process.stderr.readline()):
            pytest.skip(CANNOT + said)
    finally:
        process.kill()
        process.communicate()
    assert changes(as_before), "a run that is killed leaves something: else this test would prove nothing"
    removed = subprocess.run([COMMAND, "lab", "clean"], capture_output=True, text=True, check=False, timeout=60)
    assert removed.returncode == 0 and "zslab-" in removed.stdout, removed.stdout + removed.stderr


def test_where_ray_is_installed_a_real_job_dies_of_the_incident(tmp_path: Path) -> None:
    if lacking := missing(("ray", "ip", *pinterest.NEEDS)):
        pytest.skip(CANNOT + "; ".join(lacking))
    for attempt in range(ATTEMPTS):
        run = diagnosed("pinterest", pinterest, 1.0, str(tmp_path / f"rec{attempt}"))
        if run.judgement.right:
            break
    chains = [[it["sign"] for it in chain] for chain in run.told["chains"]]
    assert chains[0] == [*pinterest.TRUTH.chain, "job_failure"], (run.judgement, chains)
    dead = {it["subject"].partition(":")[0] for it in run.told["findings"] if it["sign"] == "job_failure"}
    assert {"raynode", "actor"} <= dead


def _skip_without(scenario: ModuleType) -> None:
    if lacking := missing(scenario.NEEDS):
        pytest.skip(CANNOT + "; ".join(lacking))
