"""The incident, really happening: systemd's restarts, dead cgroups, the walk, the drowned core, the starved queue.

Only the driver's lines are injected, and a job's death replayed: no card here can be starved on demand.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import CANNOT, Run

from zombiescope.lab import pinterest, zombie_walk
from zombiescope.lab._bench import diagnosed
from zombiescope.lab._nic import INJECTED
from zombiescope.lab._scenario import missing

pytestmark = pytest.mark.kernel


def grounds(told: dict[str, Any], law: str) -> set[str]:
    return {ground["kind"] for link in told["links"] if link["law"] == law for ground in link["grounds"]}


def test_the_whole_chain_from_a_recording_that_outlives_the_fault(tmp_path: Path, zombiescope: Run) -> None:
    if lacking := missing(pinterest.NEEDS):
        pytest.skip(CANNOT + "; ".join(lacking))
    folder = str(tmp_path / "rec")
    told = diagnosed("pinterest", pinterest, 1.0, folder).told
    chain = told["chains"][0]
    assert [it["sign"] for it in chain] == list(pinterest.TRUTH.chain), told["chains"]
    assert chain[0]["subject"] == "unit:ecs.service" == told["root_causes"][0]["subject"]
    for law in (
        "crash_looping_unit_to_zombie_cgroups",
        "zombie_cgroups_to_cgroup_walker",
        "cgroup_walker_to_saturated_core",
        "saturated_core_to_starved_softirq",
        "starved_softirq_to_driver_reset",
    ):
        assert grounds(told, law) - {"order"}, law
    reset = next(it for it in told["findings"] if it["sign"] == "driver_reset")
    assert all(INJECTED in it["text"] for it in reset["evidence"] if it["what"] == "kernel_log"), "it says so itself"
    again = zombiescope("diagnose", folder, "--format", "json").stdout
    assert json.loads(again) == told == json.loads(zombiescope("diagnose", folder, "--format", "json").stdout)


def test_dead_cgroups_that_are_walked_through_drown_a_core() -> None:
    run = diagnosed("zombie_walk", zombie_walk, 1.0)
    assert run.judgement.right, (run.judgement, run.told["chains"])
    assert grounds(run.told, "zombie_cgroups_to_cgroup_walker") >= {"mechanism"}
    assert grounds(run.told, "cgroup_walker_to_saturated_core") >= {"mechanism"}
