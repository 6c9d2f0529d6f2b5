"""The laws that end in job_failure beside the network: the kernel killed the worker, or its quota starved it."""

from __future__ import annotations

import pytest
from tests.nodes import T0, node, read
from tests.probes.test_ray_logs import HEAD, LOST
from tests.signs.test_job_failure import CRASH, POD, cause, died, given_up, ray_node, restarts

from zombiescope.core import Finding, Ground, Reading
from zombiescope.laws import cpu_throttling_to_job_failure, oom_kill_to_job_failure

KILLED = (
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/,mems_allowed=0,oom_memcg=/kubepods,"
    "task_memcg={},task={},pid={},uid=0",
    "Memory cgroup out of memory: Killed process {} ({}) total-vm:1kB, anon-rss:1kB, file-rss:0kB, shmem-rss:0kB",
)


def oom(pid: int, name: str = "ray::train", memcg: str = POD) -> Finding:
    return cause(f"cgroup:{memcg}", T0 + 9, KILLED[0].format(memcg, name, pid), KILLED[1].format(pid, name))


def oom_grounds(killed: Finding, subject: str, *readings: Reading) -> list[Ground]:
    timeline = node(readings)
    return list(oom_kill_to_job_failure.grounds(killed, died(timeline, subject), timeline))


def crash(pid: int) -> Reading:
    return read("ray_event", "job:01000000", 3, 10, CRASH.format(LOST, pid))


def test_the_process_that_the_kernel_killed_is_the_worker_that_died() -> None:
    (ground,) = oom_grounds(oom(4711), "job:01000000", crash(4711))
    assert ground.kind == "mechanism" and "process 4711 (ray::train) is the worker that died" in ground.says


def test_in_a_container_pids_differ_and_the_cgroup_tells() -> None:
    (ground,) = oom_grounds(oom(4711), "job:01000000", crash(12), ray_node(LOST))
    assert ground.kind == "place" and "raylet's own cgroup" in ground.says


def test_a_container_whose_process_was_killed() -> None:
    info = read("container_info", f"cgroup:{POD}", 1, 0, "container web of pod default/web-1, image x (containerd)")
    (ground,) = oom_grounds(oom(4711, "nginx"), "container:default/web-1/web", info, *restarts(0, 1))
    assert ground.kind == "place" and ground.evidence[-1] == info


@pytest.mark.parametrize(
    ("killed", "subject", "readings"),
    [
        (oom(4711), "job:01000000", [crash(12)]),
        (oom(4711, "nginx"), "job:01000000", [crash(12), ray_node(LOST)]),
        (oom(4711, memcg="/elsewhere"), "job:01000000", [crash(12), ray_node(LOST)]),
        (oom(4711), f"raynode:{LOST}", [given_up(), ray_node(LOST)]),
        (
            oom(4711),
            "container:default/web-1/web",
            [read("container_info", f"cgroup:{POD}", 1, 0, "container web of pod default/web-10 (x)"), *restarts(0, 1)],
        ),
    ],
    ids=["another pid", "no Ray process", "another cgroup", "missed heartbeats", "a pod of a longer name"],
)
def test_a_kill_is_not_joined_to(killed: Finding, subject: str, readings: list[Reading]) -> None:
    assert not oom_grounds(killed, subject, *readings)


@pytest.mark.parametrize(
    ("throttled", "readings", "joined"),
    [
        (POD, [given_up(), ray_node(LOST)], True),
        ("/kubepods/burstable/pod1", [given_up(), ray_node(LOST)], True),
        (POD, [given_up(), ray_node(LOST, cgroup=POD + "2")], False),
        ("/", [given_up(), ray_node(LOST)], False),
        (POD, [given_up(), ray_node(HEAD)], False),
    ],
    ids=["its own", "its pod's", "a sibling's", "the root's", "another node's"],
)
def test_throttling_of_the_raylets_own_cgroup(throttled: str, readings: list[Reading], joined: bool) -> None:
    timeline = node(readings)
    stopped = cause(f"cgroup:{throttled}", T0 + 5, "", what="cgroup_throttled_ratio")
    grounds = list(cpu_throttling_to_job_failure.grounds(stopped, died(timeline, f"raynode:{LOST}"), timeline))
    assert [ground.kind for ground in grounds] == ["place"] * joined


def test_throttling_does_not_explain_a_crash() -> None:
    timeline = node([crash(7), ray_node(LOST)])
    stopped = cause(f"cgroup:{POD}", T0 + 5, "", what="cgroup_throttled_ratio")
    assert not list(cpu_throttling_to_job_failure.grounds(stopped, died(timeline, "job:01000000"), timeline))
