"""oom_kill: whose limit, which process, how large; a whole cgroup is one event; counted where the log is silent."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from tests.nodes import node, read

from zombiescope.core import Reading
from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.signs import oom_kill


def why(pid: int, memcg: str = "/kubepods/pod1", task: str = "/kubepods/pod1/7f") -> str:
    return (
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=7f,mems_allowed=0,"
        f"oom_memcg={memcg},task_memcg={task},task=python3,pid={pid},uid=0"
    )


def killed(pid: int, reason: str = "Memory cgroup out of memory: ", name: str = "python3") -> str:
    return f"{reason}Killed process {pid} ({name}) total-vm:3kB, anon-rss:500000kB, file-rss:100000kB, shmem-rss:0kB"


GLOBAL = "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
GLOBAL += "task_memcg=/user.slice,task=java,pid=7,uid=0"


def log(*texts: str, every: float = 0.01) -> list[Reading]:
    return [read("kernel_log", "node", 3, at=place * every, text=text) for place, text in enumerate(texts)]


def kills(*values: float) -> list[Reading]:
    return [read("vmstat_oom_kill_total", "node", value, at=float(place)) for place, value in enumerate(values)]


def case(readings: Iterable[Reading], unseen: dict[str, str] | None = None) -> Case:
    return examine(node(readings, unseen=unseen), signs={"oom_kill": oom_kill}, laws={})


def test_a_cgroup_s_limit_names_the_cgroup_and_the_process() -> None:
    (found,) = case(log("Tasks state (memory values in pages):", why(4242), killed(4242))).findings
    assert found.subject == "cgroup:/kubepods/pod1"
    assert found.says == "had 1 process OOM-killed at its memory limit: python3[4242] (614.4 MB), in /kubepods/pod1/7f"
    assert [it.text for it in found.evidence] == [why(4242), killed(4242)]


def test_the_whole_node() -> None:
    (found,) = case(log(GLOBAL, killed(7, "Out of memory: ", "java"))).findings
    assert (found.subject, found.says) == ("node", "had 1 process OOM-killed: java[7] (614.4 MB), in /user.slice")


def test_a_whole_group_is_one_event() -> None:
    (found,) = case(log(why(1), *(killed(pid) for pid in range(1, 24)))).findings
    assert found.subject == "cgroup:/kubepods/pod1" and "python3[3] (614.4 MB) and 20 more" in found.says
    assert len(found.evidence) == oom_kill.SHOWN


def test_a_reason_is_not_taken_for_another_s() -> None:
    """Reasons are rate-limited: a kill of the whole node just after is not of that cgroup."""
    found = case(log(why(1), killed(1), killed(9, "Out of memory: "))).findings
    assert [it.subject for it in found] == ["cgroup:/kubepods/pod1", "node"]
    found = case(log(why(1), killed(1), killed(9), every=5.0)).findings
    assert found[1].subject == "node" and "OOM-killed at a cgroup's memory limit: python3[9]" in found[1].says


def test_kernels_before_4_19() -> None:
    old = "Task in /docker/7f killed as a result of limit of /docker"
    (found,) = case(log(old, "memory: usage 524288kB", killed(5, ""), every=1.0)).findings
    assert found.subject == "cgroup:/docker" and "python3[5]" in found.says and len(found.evidence) == 2


def test_a_reason_whose_kill_was_not_heard_is_told() -> None:
    (found,) = case(log(why(4242))).findings
    assert found.says == "had 1 process OOM-killed at its memory limit: python3[4242], in /kubepods/pod1/7f"


def test_two_cgroups_and_two_times() -> None:
    other = why(8, "/a", "/a")
    found = case(log(why(1), killed(1), other, killed(8), why(2), killed(2), every=6.0)).findings
    assert [it.subject for it in found] == ["cgroup:/kubepods/pod1", "cgroup:/kubepods/pod1", "cgroup:/a"]


def test_the_kernel_s_own_count_where_the_log_is_silent() -> None:
    (found,) = case([*log("usb 1-1: new device"), *kills(2, 2, 5, 5)]).findings
    assert found.subject == "node" and found.says.startswith("had 3 processes OOM-killed by the kernel's count")
    assert [it.value for it in found.evidence] == [2, 5]
    # What the log tells is not told twice.
    assert len(case([*log(why(1), killed(1)), *kills(2, 2, 3, 3)]).findings) == 1


@pytest.mark.parametrize(
    ("readings", "unseen", "state"),
    [
        (log("oom_reaper: reaped process 4242 (python3), now anon-rss:0kB"), {}, "clear"),
        (kills(7, 7), {"kernel_log": "operation not permitted"}, "clear"),
        (kills(7), {"kernel_log": "operation not permitted"}, "blind"),
        ([*log("usb"), *kills(7, 7)], {}, "clear"),
    ],
)
def test_silent(readings: list[Reading], unseen: dict[str, str], state: str) -> None:
    result = case(readings, unseen)
    assert not result.findings and result.verdicts[0].state == state and result.verdicts[0].evidence
