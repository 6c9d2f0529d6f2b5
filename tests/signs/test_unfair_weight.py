"""unfair_weight: a heavy cgroup on a full node and who waits beside it; batch and idle nodes are left alone."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from tests.files import node_of
from tests.nodes import cores, node, read
from tests.probes.machine import AT

from zombiescope.core import Blind, Finding, Reading
from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.laws import unfair_weight_to_starved_thread
from zombiescope.probes import cpu_weights
from zombiescope.signs import unfair_weight

STEPS = (0.0, 5.0, 10.0)


def case(*, pods: float = 256.0, system: float = 1.0, busy: float = 1.0, inside: str = "/system/agent") -> Case:
    found: list[Reading] = [*cores({cpu: [{"user": busy}] * 40 for cpu in (0, 1)})]
    for at in STEPS:
        for path, weight, used in (("/pods", pods, 1.9), ("/system", system, 0.05)):
            found.append(read("cgroup_cpu_weight", f"cgroup:{path}", weight, at))
            found.append(read("cgroup_cpu_used_seconds_total", f"cgroup:{path}", used * at, at))
        found.append(read("cgroups_weighed", "node", 2, at))
        found.append(read("process_run_delay_seconds_total", "process:agent[7]", 0.9 * at, at))
        found.append(read("process_in_cgroup", "process:agent[7]", 1, at, inside))
    return examine(node(found), signs={"unfair_weight": unfair_weight}, laws={})


def test_pods_that_weigh_more_than_the_system() -> None:
    (found,) = case().root_causes
    assert found.subject == found.culprit == "cgroup:/pods"
    assert found.says.startswith("weighs 256 times as much as what waits beside it and uses 1.9 cores of a full node")
    assert found.harm.waited_cores == pytest.approx(0.9, abs=0.01)
    (root,) = case(inside="/").root_causes
    assert root.subject == "cgroup:/pods"  # what is in no cgroup weighs 1.0, as kernel threads do
    assert list(unfair_weight_to_starved_thread.grounds(found, replaced(found, "process:agent[7]"), node([])))
    assert not list(unfair_weight_to_starved_thread.grounds(found, replaced(found, "process:b[8]"), node([])))


def replaced(found: Finding, subject: str) -> Finding:
    return replace(found, subject=subject)


@pytest.mark.parametrize(
    "changed",
    [{"busy": 0.5}, {"pods": 4.0}, {"system": 0.02}, {"inside": "/pods/a"}],
    ids=["cores are idle", "a little more", "meant to come last", "inside of it"],
)
def test_silent(changed: dict[str, float]) -> None:
    result = case(**changed)  # type: ignore[arg-type]
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


def test_a_cgroup_whose_time_is_not_counted_is_not_accused() -> None:
    """Where cpuacct is a hierarchy of its own, a cgroup may be in one and not in the other."""
    readings = [
        it
        for at in STEPS
        for it in (read("cgroup_cpu_weight", "cgroup:/pods", 256, at), read("cgroups_weighed", "node", 1, at))
    ]
    readings += [read("process_run_delay_seconds_total", "process:agent[7]", 0.9 * at, at) for at in STEPS]
    readings += [read("process_in_cgroup", "process:agent[7]", 1, at, "/") for at in STEPS]
    full = cores({cpu: [{"user": 1.0}] * 40 for cpu in (0, 1)})
    result = examine(node([*full, *readings]), signs={"unfair_weight": unfair_weight}, laws={})
    assert not result.findings and result.verdicts[0].state == "clear"


def test_blind() -> None:
    unseen = {"cgroups_weighed": "no hierarchy", "process_run_delay_seconds_total": "no such file"}
    assert examine(node([], unseen=unseen), signs={"it": unfair_weight}, laws={}).verdicts[0].state == "blind"


@pytest.mark.parametrize("version", [1, 2])
def test_weights_of_both_hierarchies(tmp_path: Path, version: int) -> None:
    kind = "cgroup cgroup rw,cpu,cpuacct" if version == 1 else "cgroup2 cgroup2 rw"
    files = {"at": str(AT), "proc/self/mountinfo": f"40 31 0:37 / /c rw - {kind}\n"}
    files |= (
        {"c/pods/cpu.shares": "262144\n", "c/pods/cpuacct.usage": "5000000000\n"}
        if version == 1
        else {
            "c/pods/cpu.weight": "10000\n",
            "c/pods/cpu.stat": "usage_usec 5000000\n",
        }
    )
    files |= {"c/pods/a/b/c/cpu.weight": "1\n"}
    found = [it for it in cpu_weights.read(node_of(tmp_path, files)) if isinstance(it, Reading)]
    assert [(it.what, it.value) for it in found] == [
        ("cgroup_cpu_weight", 256 if version == 1 else 100),
        ("cgroup_cpu_used_seconds_total", 5),
        ("cgroups_weighed", 1),
    ]
    weight = f"c/pods/cpu.{'shares' if version == 1 else 'weight'}"
    (unknown, _) = cpu_weights.read(node_of(tmp_path, files | {weight: "x\n"}))
    assert isinstance(unknown, Blind) and unknown.source == f"/{weight}"
