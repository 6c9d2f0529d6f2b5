"""raise_cpu_quota: advice with the figures, for whoever set the quota; it never acts."""

from __future__ import annotations

import pytest
from tests.nodes import cores, node, read
from tests.remedies.planned import finding, plan_for, plans

from zombiescope.core import Plan
from zombiescope.signs import cpu_throttling

ID = "0123456789abcdef" * 4
POD = f"/kubepods.slice/kubepods-pod0a1b2c3d_0000_1111_2222_333344445555.slice/cri-containerd-{ID}.scope"


def planned(path: str, *, quota: float = 0.5, stopped: float = 0.7) -> Plan:
    subject = f"cgroup:{path}"
    readings = cores({cpu: [{"user": 0.1}] * 40 for cpu in (0, 1)})
    for at in range(0, 11, 2):
        figures = (stopped * at, 9 * at, 10 * at)
        readings += [
            read(what, subject, value, at) for what, value in zip(cpu_throttling.NEEDS[:3], figures, strict=True)
        ]
    if quota:
        readings.append(read("cgroup_cpu_quota_cores", subject, quota, 0.0))
    (plan,) = plans(node(readings), "raise_cpu_quota", "cpu_throttling")
    assert plan.advice and plan.proof == ("cpu_throttling",)
    return plan


def test_the_figures_come_first() -> None:
    assert planned(POD).steps[0].says == (
        "its quota is 0.5 cores; it was throttled in 90 % of its periods (0.70 s of each second) "
        "while 1.8 cores were idle"
    )


@pytest.mark.parametrize(
    ("path", "says"),
    [
        (POD, "set resources.limits.cpu to 1.5, or leave the limit out"),
        (f"/docker/{ID}", "`docker update --cpus=1.5 0123456789ab`, and the same where it is started"),
        ("/system.slice/etl.service", "`systemctl set-property etl.service CPUQuota=150%`; CPUQuota= without"),
        ("/system.slice/etl.service/worker", "what made unit etl.service should give it 1.5 cores: cpu.max"),
        ("/batch.slice", "systemctl set-property batch.slice CPUQuota=150%"),
        ("/made by hand\x1b[31m", "what made /made by hand\\x1b[31m should give it 1.5 cores"),
    ],
)
def test_who_set_it_must_change_it(path: str, says: str) -> None:
    assert says in planned(path).steps[1].says


def test_no_more_than_the_node_has_to_give() -> None:
    assert "CPUQuota=250%" in planned("/system.slice/etl.service", stopped=30.0).steps[1].says  # 0.5 and 1.8 idle


def test_a_quota_that_was_not_seen() -> None:
    plan = planned(POD, quota=0)
    assert plan.steps[0].says.startswith("its quota is not known; it was throttled in 90 %")
    assert "limits.cpu to more, or" in plan.steps[1].says


@pytest.mark.parametrize(("idle", "advised"), [(0.25, True), (0.24, False)])
def test_where_no_core_is_idle_a_larger_quota_takes_it_from_others(idle: float, advised: bool) -> None:
    told = {"cgroup_throttled_ratio": 0.9, "cgroup_throttled_seconds_per_second": 0.7, "cpu_idle_cores": idle}
    evidence = [read(what, "cgroup:/batch.slice", value, 0.0) for what, value in told.items()]
    found = finding("cpu_throttling", "cgroup:/batch.slice", *evidence)
    assert (plan_for(found, "raise_cpu_quota", node([])) is not None) == advised


def test_not_for_anything_else() -> None:
    found = finding("cpu_throttling", "node", read("cgroup_throttled_ratio", "node", 0.9, 0.0))
    assert plan_for(found, "raise_cpu_quota", node([])) is None
