"""upgrade_kernel: what a newer kernel mends of what was found on this one, and nothing else."""

from __future__ import annotations

import pytest
from tests.nodes import node, read
from tests.remedies.planned import plans
from tests.signs.test_zombie_cgroups import v1

from zombiescope.core.timeline import Timeline


def dead(controller: str) -> Timeline:
    return node(v1([68_680] * 3, controller=controller))


def slow(file: str) -> Timeline:
    return node([read(it, f"file:{file}", 0.4, 1.0) for it in ("stat_read_seconds", "stat_read_cpu_seconds")])


def says(timeline: Timeline, sign: str, kernel: str) -> str:
    found = plans(timeline, "upgrade_kernel", sign, kernel=kernel)
    assert all(plan.advice and plan.proof == (sign,) for plan in found)
    return " / ".join(step.says for plan in found for step in plan.steps)


def test_the_incident_s_kernel() -> None:
    told = says(dead("memory"), "zombie_cgroups", "5.4.0-1103-aws")
    assert told.startswith("this is 5.4.0-1103-aws; from Linux 5.8 on a read of the root's memory.numa_stat no longer")
    assert "from Linux 7.1 on cached pages" in told and "blkio" not in told


@pytest.mark.parametrize(
    ("timeline", "sign", "kernel", "version"),
    [
        (dead("memory"), "zombie_cgroups", "6.8.0-1021-aws", "7.1"),
        (dead("blkio"), "zombie_cgroups", "5.19.7", "6.0"),
        (slow("memory.numa_stat"), "slow_stat_read", "5.4.0", "5.8"),
        (slow("memory.stat"), "slow_stat_read", "5.10.0", "5.13"),
    ],
)
def test_only_what_fits(timeline: Timeline, sign: str, kernel: str, version: str) -> None:
    told = says(timeline, sign, kernel)
    assert told.startswith(f"this is {kernel}; from Linux {version} on ") and told.count("from Linux") == 1


@pytest.mark.parametrize(
    ("timeline", "sign", "kernel"),
    [
        (dead("memory"), "zombie_cgroups", "7.1.0"),
        (dead("memory"), "zombie_cgroups", "10.0"),
        (dead("blkio"), "zombie_cgroups", "5.15.0"),
        (dead("pids"), "zombie_cgroups", "5.4.0"),
        (slow("memory.numa_stat"), "slow_stat_read", "6.18.5"),
        (dead("memory"), "zombie_cgroups", ""),
        (dead("memory"), "zombie_cgroups", "linux"),
    ],
    ids=["mended", "far newer", "before the harm", "another controller", "slow for another reason", "unknown", "odd"],
)
def test_nothing_is_advised(timeline: Timeline, sign: str, kernel: str) -> None:
    assert says(timeline, sign, kernel) == ""


def test_a_commit_is_named_and_nothing_else_in_its_place() -> None:
    assert says(slow("memory.numa_stat"), "slow_stat_read", "5.4.0").endswith(" (dd8657b6c1cb)")
    assert not says(dead("blkio"), "zombie_cgroups", "5.19.7").endswith(")")
