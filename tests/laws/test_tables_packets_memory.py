"""Laws between full tables, lost packets, locks, NUMA nodes and disks: each joins what belongs together, no more."""

from __future__ import annotations

from types import ModuleType

import pytest
from tests.nodes import T0, Sampled, node, read

from zombiescope.core import Finding, Reading, Span
from zombiescope.core.timeline import Timeline
from zombiescope.laws import (
    disk_stall_to_page_fault_storm,
    frozen_cgroup_to_job_failure,
    irq_pile_up_to_lost_packets,
    numa_lopsided_to_direct_reclaim,
    numa_lopsided_to_oom_kill,
    proc_walker_to_kernel_lock,
    rule_walk_to_softirq_storm,
    starved_softirq_to_lost_packets,
    stopped_tasks_to_pipe_full,
)

KILL = (
    "oom-kill:constraint=CONSTRAINT_{},nodemask=0,cpuset=/,mems_allowed=0,global_oom,"
    "task_memcg=/a,task=python3,pid=4242,uid=0"
)


def found(subject: str, *evidence: Reading, says: str = "") -> Finding:
    span = Span(T0, T0 + 10)
    return Finding(subject=subject, span=span, says=says, evidence=evidence or (read("x", subject, 1, 0),))


def kinds(law: ModuleType, cause: Finding, effect: Finding, timeline: Timeline | None = None) -> list[str]:
    return [it.kind for it in law.grounds(cause, effect, timeline or Timeline())]


@pytest.mark.parametrize("law", [irq_pile_up_to_lost_packets, starved_softirq_to_lost_packets])
def test_packets_are_lost_on_the_core_that_does_not_take_them(law: ModuleType) -> None:
    assert kinds(law, found("cpu:3"), found("cpu:3")) == ["place"]
    assert not kinds(law, found("cpu:3"), found("cpu:4")) and not kinds(law, found("cpu:3"), found("netns:7"))


def test_rules_fill_the_core_of_the_storm() -> None:
    def core(stack: str) -> list[Sampled]:
        return [(at / 10, 3, "ksoftirqd/3[40]", stack) for at in range(100)]

    walk, other = (node([], samples=core(it)) for it in ("net_rx_action;ip_rcv;ipt_do_table", "net_rx_action;ip_rcv"))
    assert kinds(rule_walk_to_softirq_storm, found("node"), found("cpu:3"), walk) == ["mechanism"]
    assert not kinds(rule_walk_to_softirq_storm, found("node"), found("cpu:3"), other)


def test_the_walker_that_holds_the_lock() -> None:
    spun = read("lock_sampled_seconds", "lock:a memory map", 4.0, 0)
    for holder, tied in (("process:cadvisor[9]", ["mechanism"]), ("process:java[4]", [])):
        lock = found("lock:a memory map", spun, read("lock_held_sampled_seconds", holder, 3.0, 0))
        assert kinds(proc_walker_to_kernel_lock, found("process:cadvisor[9]"), lock) == tied
    assert not kinds(proc_walker_to_kernel_lock, found("process:cadvisor[9]"), found("lock:a memory map", spun))


def test_a_container_that_was_frozen_and_restarted() -> None:
    pod = "/kubepods/besteffort/pod3f9c2b61-7d1e-4a57-9a0c-5e2d8b7f1c34/" + "a" * 64
    info = read("container_info", f"cgroup:{pod}", 1, 0, "container web of pod default/web-1, image x (containerd)")
    name = "container web of pod default/web-1"
    restarted, other = (
        found(f"container:{it}", read("container_restarts_total", f"container:{it}", 2, 5, it)) for it in (name, "db")
    )
    timeline = node([info])
    assert kinds(frozen_cgroup_to_job_failure, found(f"cgroup:{pod}"), restarted, timeline) == ["place"]
    assert not kinds(frozen_cgroup_to_job_failure, found(f"cgroup:{pod}"), other, timeline)
    assert not kinds(frozen_cgroup_to_job_failure, found("process:a[1]"), restarted, timeline)


def test_a_reader_that_is_stopped() -> None:
    stopped = found("node", read("stopped_processes", "node", 2, 0, "fluentd[41], vim[9]"))
    assert kinds(stopped_tasks_to_pipe_full, stopped, found("process:fluentd[41]")) == ["mechanism"]
    assert not kinds(stopped_tasks_to_pipe_full, stopped, found("process:fluentd[4]"))


def test_memory_is_free_on_the_other_numa_node() -> None:
    free = [read("numa_memory_free_bytes", f"numa:{it}", it * 9e9, 0) for it in (0, 1)]
    full = found("numa:0", *free)
    assert kinds(numa_lopsided_to_direct_reclaim, full, found("node")) == ["mechanism"]
    assert not kinds(numa_lopsided_to_direct_reclaim, full, found("cgroup:/a"))
    assert not kinds(numa_lopsided_to_direct_reclaim, found("node"), found("node"))  # only balancing: no node is full
    for constraint, tied in (("MEMORY_POLICY", True), ("CPUSET", True), ("NONE", False), ("MEMCG", False)):
        kill = found("node", read("kernel_log", "node", 6, 5, KILL.format(constraint)))
        assert bool(kinds(numa_lopsided_to_oom_kill, full, kill)) == tied


@pytest.mark.parametrize(
    ("says", "subject", "waiting", "tied"),
    [
        ("had 300 major faults a second", "disk:sda", 0.5, True),
        ("had 300 major faults a second", "disk:sda", 0.05, False),
        ("had 90,000 page faults a second", "disk:sda", 0.5, False),
        ("had 300 major faults a second", "cgroup:/a", 0.5, False),
    ],
    ids=["slow disk", "nobody waits", "minor faults", "a cgroup's own limit"],
)
def test_faults_that_wait_for_the_disk(says: str, subject: str, waiting: float, tied: bool) -> None:
    pressed = node([read("pressure_io_waiting_seconds_total", "node", waiting * at, at) for at in (0.0, 5.0, 10.0)])
    assert bool(kinds(disk_stall_to_page_fault_storm, found(subject), found("node", says=says), pressed)) == tied
