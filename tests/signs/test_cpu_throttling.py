"""cpu_throttling: a cgroup kept from running is found, on a full node too; one that is hardly stopped is not."""

from __future__ import annotations

import pytest
from tests.nodes import cores, node, read

from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import cpu_throttling

GROUP = "cgroup:/kubepods/pod1"


def case(share: float, stopped: float, busy: float = 0.1, seconds: int = 10, quota: float = 0.1) -> Case:
    """Ten periods a second, looked at every two seconds."""
    readings = cores({cpu: [{"user": busy}] * (seconds * 4) for cpu in (0, 1)})
    for at in range(0, seconds + 1, 2):
        figures = (stopped * at, share * 10 * at, 10 * at)
        readings += [
            read(what, GROUP, value, at) for what, value in zip(cpu_throttling.NEEDS[:3], figures, strict=True)
        ]
    readings += [read("cgroup_cpu_quota_cores", GROUP, quota, 0.0)]
    readings += [read("procs_running", "node", 4, at) for at in (0.0, seconds)]
    return examine(node(readings), signs={"cpu_throttling": cpu_throttling}, laws={})


def test_a_cgroup_that_stands_still_while_cores_idle_is_found_with_the_figures() -> None:
    (found,) = case(0.9, 0.7).findings
    assert found.subject == GROUP
    assert found.says == (
        "was throttled in 90 % of its periods for 10.0 s (0.70 s of each second) while 1.8 of 2 cores were idle"
    )
    figures = {it.what: it.value for it in found.evidence}
    assert figures == {
        "cgroup_throttled_ratio": 0.9,
        "cgroup_throttled_seconds_per_second": pytest.approx(0.7),
        "cpu_idle_cores": pytest.approx(1.8),
    }


@pytest.mark.parametrize(
    ("share", "stopped", "busy"),
    [(0.1, 0.5, 0.1), (0.9, 0.01, 0.1), (0.0, 0.0, 0.1)],
    ids=["seldom", "for a millisecond each", "never"],
)
def test_silent(share: float, stopped: float, busy: float) -> None:
    result = case(share, stopped, busy)
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


def test_a_full_node_is_a_grade_of_its_own() -> None:
    (found,) = case(1.0, 0.7, busy=0.99).findings
    assert (
        found.says == "was throttled in 100 % of its periods for 10.0 s (0.70 s of each second) while no core was idle"
    )
    assert found.harm.waited_cores == pytest.approx(0.35), "its fair share of that time: four wanted two cores"
    assert case(0.9, 0.7).findings[0].harm.waited_cores == pytest.approx(0.7)


def test_what_nobody_notices_grows_with_the_quota() -> None:
    """2.5 ms of each period on each of eight cores."""
    assert not case(0.9, 0.2, quota=8.0).findings
    assert case(0.9, 0.2, quota=0.5).findings


def test_a_short_burst_is_no_finding() -> None:
    assert not case(0.9, 0.7, seconds=2).findings


POD = "cgroup:/kubepods/burstable/pod3f2cd8a1-0b1c-4d2e-8f90-a1b2c3d4e5f6"


@pytest.mark.parametrize(
    ("busy", "found"),
    [
        (["/" + "a" * 64], [POD]),
        (["/" + "a" * 64, "/" + "b" * 64], [POD, f"{POD}/{'a' * 64}", f"{POD}/{'b' * 64}"]),
    ],
)
def test_a_pod_and_its_only_busy_container_are_one_finding(busy: list[str], found: list[str]) -> None:
    readings = cores({cpu: [{"user": 0.1}] * 40 for cpu in (0, 1)})
    readings.append(read("pod_info", f"pod:{POD[-36:]}", 1, 0.0, "pod default/web-1"))
    for group in [POD, *(POD + it for it in busy)]:
        for at in range(0, 11, 2):
            figures = zip(cpu_throttling.NEEDS[:3], (0.7 * at, 9 * at, 10 * at), strict=True)
            readings += [read(what, group, value, at) for what, value in figures]
    told = examine(node(readings), signs={"cpu_throttling": cpu_throttling}, laws={}).findings
    assert [it.subject for it in told] == found and told[0].says.endswith("; owner: pod default/web-1")


def test_a_node_without_quotas_is_clear() -> None:
    readings = cores({0: [{}] * 8})
    readings += [read("cgroups_with_quota", "node", 0, at) for at in (0.0, 2.0)]
    readings += [read(what, "cgroup:/idle", 0, at) for what in cpu_throttling.NEEDS[:3] for at in (0.0, 2.0)]
    verdict = examine(node(readings), signs={"cpu_throttling": cpu_throttling}, laws={}).verdicts[0]
    assert (verdict.state, verdict.says) == ("clear", "no cgroup used its quota")
