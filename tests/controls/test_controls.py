"""Nodes of 96 and 192 cores that are only busy: nothing is accused, and the exit code is 0."""

from __future__ import annotations

import pytest
from tests.controls.generated import Node
from tests.controls.loads import CONTROLS

from zombiescope.core import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.outputs._story import OK, headline

RUNS, LONG = 50, 60  # runs of each, and seconds of each run


def examined(name: str, *, seed: int, seconds: int) -> Case:
    cores, load = CONTROLS[name]
    node = Node(cores=cores, seconds=seconds, seed=seed)
    load(node)
    return examine(node.timeline())


def innocent(case: Case) -> None:
    assert headline(case)[0] == OK, headline(case)[1]
    assert not case.problems and not case.unsure and not case.root_causes


@pytest.mark.parametrize("name", CONTROLS)
def test_a_busy_node_is_not_accused(name: str) -> None:
    innocent(examined(name, seed=1000, seconds=40))


@pytest.mark.long
@pytest.mark.parametrize("name", CONTROLS)
def test_a_busy_node_is_not_accused_in_fifty_runs(name: str) -> None:
    for seed in range(RUNS):
        innocent(examined(name, seed=seed, seconds=LONG))


@pytest.mark.long
@pytest.mark.parametrize("name", CONTROLS)
def test_a_busy_hour_is_not_accused(name: str) -> None:
    innocent(examined(name, seed=2000, seconds=3600))


# Each would be accused if a sign looked at the load alone: the sign itself sees it, and says that it harms nobody.
NOTED = {
    "gateway": "softirq_storm",
    "gateway_one_queue": "irq_pile_up",
    "realtime_poller": "realtime_hog",
    "kubelet_250_pods": "cgroup_walker",
    "cold_dying_cgroups": "zombie_cgroups",
    "many_mounts": "mount_explosion",
    "kernel_heavy_jobs": "saturated_core",
    "finished_worker": "crash_looping_unit",
}


@pytest.mark.parametrize(("name", "sign"), NOTED.items())
def test_what_is_merely_busy_is_noted(name: str, sign: str) -> None:
    assert sign in {it.sign for it in examined(name, seed=1, seconds=120).noted}
