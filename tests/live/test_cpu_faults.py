"""CPU faults that really happen: the installed command names what the lab made, and accuses nobody else."""

from __future__ import annotations

import json
import os
import re
from glob import glob
from importlib import import_module
from typing import Any

import pytest
from tests.conftest import CANNOT, Run

from zombiescope.core import UserError
from zombiescope.lab._scenario import Fault, Truth, missing

pytestmark = pytest.mark.kernel
FAULTS = ("throttled", "starved_thread", "realtime_hog", "defunct", "blocked_tasks", "fork_storm")
SIGNS = ("cpu_throttling", "realtime_hog", "starved_thread", "fork_storm", "defunct_processes", "blocked_tasks")
CONTROLS = ("quiet", "user_loop_one_core", "compile")


def diagnosed(zombiescope: Run, name: str) -> tuple[Fault, Truth, dict[str, Any]]:
    """The report of a diagnosis made while the scenario goes on."""
    scenario = import_module(f"zombiescope.lab.{name}")
    if lacks := missing(scenario.NEEDS):
        pytest.skip(CANNOT + "; ".join(lacks))
    try:
        with scenario.run() as fault:
            argv = ("--seconds", str(scenario.SECONDS), "--format", "json")
            report: dict[str, Any] = json.loads(zombiescope("diagnose", *argv).stdout)
    except UserError as error:
        pytest.skip(CANNOT + str(error))
    return fault, scenario.TRUTH, report


def of_another_lab(subject: str) -> bool:
    """Several may make faults on one machine at the same time; what they make carries their number."""
    made_by = re.search(r"zslab-[a-z-]+-(\d+)", subject)
    return made_by is not None and int(made_by[1]) != os.getpid()


def left_behind() -> list[str]:
    """What this process's scenarios made and did not take away."""
    folders = [path for pattern in ("/run/netns/*", "/sys/fs/cgroup/*", "/sys/fs/cgroup/*/*") for path in glob(pattern)]
    with open(f"/proc/self/task/{os.getpid()}/children") as children:
        return [path for path in folders if path.endswith(f"-{os.getpid()}")] + children.read().split()


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_named_with_its_chain(name: str, zombiescope: Run) -> None:
    fault, truth, report = diagnosed(zombiescope, name)
    chains = [[it["sign"] for it in chain] for chain in report["chains"] if chain[0]["subject"] == fault.subject]
    assert any(tuple(chain[: len(truth.chain)]) == truth.chain for chain in chains), report["findings"]
    # A symptom whose cause no sign of ours can see is not called a root cause, but is listed as unexplained.
    unexplained = [report["findings"][it["finding"]] for it in report["unexplained"]]
    named = {(it["sign"], it["subject"]) for it in (*report["root_causes"], *unexplained)}
    assert (truth.root, fault.subject) in named and truth.names(fault.subject)
    assert not {it["sign"] for it in report["verdicts"] if it["state"] == "broken"}
    own = {f"-{os.getpid()}", fault.subject} - {"node"}
    accused = [it for it in report["findings"] if it["sign"] in truth.silent]
    assert not [it for it in accused if any(name in json.dumps(it) for name in own)]
    assert not left_behind()


@pytest.mark.parametrize("name", CONTROLS)
def test_a_healthy_machine_is_not_accused(name: str, zombiescope: Run) -> None:
    _, truth, report = diagnosed(zombiescope, name)
    assert set(SIGNS) <= set(truth.silent)
    assert not [it for it in report["findings"] if it["sign"] in SIGNS and not of_another_lab(it["subject"])]
    assert not left_behind()
