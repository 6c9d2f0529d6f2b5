"""Remedies that only advise: nothing is run, and each setting is named for what is full, slow or lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.nodes import node, read
from tests.remedies.planned import finding, plan_for

from zombiescope.core import Case, Link
from zombiescope.members.rooms import healthy, names
from zombiescope.remedies import ask_owner

POD = "/kubepods.slice/kubepods-pod0a1b2c3d_1111_2222_3333_444455556666.slice"
SEEN = read("seen", "node", 1.0, 0.0)


def advice(remedy: str, sign: str, subject: str, says: str = "seen", what: str = "seen") -> list[str]:
    found = replace(finding(sign, subject, replace(SEEN, what=what)), says=says)
    plan = plan_for(found, remedy, node([SEEN]))
    assert plan is not None and plan.risk == "safe" and plan.proof == (sign,)
    assert not any(it.argv or it.stdin or it.keeps or it.undo or it.unit for it in plan.steps), "advice does nothing"
    assert plan.steps[0].says == says
    return [it.says for it in plan.steps[1:]]


@pytest.mark.parametrize(
    ("subject", "names"),
    [
        (f"cgroup:{POD}", "podPidsLimit"),
        ("cgroup:/system.slice/agent.service", "systemctl set-property agent.service TasksMax="),
        ("cgroup:/by-hand", "/by-hand sets its pids.max"),
        ("user:1000", "fs.inotify.max_user_instances"),
        ("table:keys of user 1000", "kernel.keys.maxkeys"),
        ("table:file handles", "fs.file-max"),
        ("table:one of tomorrow", "its sysctl"),
    ],
)
def test_a_full_table_is_raised_where_its_limit_is_set(subject: str, names: str) -> None:
    (said,) = advice("raise_table_limit", "table_full", subject)
    assert names in said


@pytest.mark.parametrize(
    ("subject", "says", "names"),
    [
        ("cgroup:/system.slice/db.service", "is held at its limit", "IOReadIOPSMax= and its kin of db.service"),
        ("cgroup:/by-hand", "is held at its limit", "io.max on cgroup v2"),
        ("disk:nvme0n1", "took 300 ms: a ceiling of 3,000 requests", "credits for bursts"),
        ("disk:nvme0n1", "did not answer for 30 s", "SMART"),
        ("disk:nvme0n1", "took 300 ms; the kernel logged 3 timeouts", "SMART"),
        ("disk:nvme0n1", "took 300 ms", "what writes most: iotop"),
    ],
)
def test_a_slow_disk_is_told_apart_from_one_that_is_limited_or_fails(subject: str, says: str, names: str) -> None:
    assert names in advice("relieve_disk", "disk_stall", subject, says)[0]


@pytest.mark.parametrize(
    ("what", "names"),
    [("net_accepts_refused_total", "somaxconn"), ("softnet_dropped_total", "netdev_max_backlog"), ("dmesg", "")],
)
def test_a_queue_that_overflows_is_named_and_an_unknown_one_is_not_guessed(what: str, names: str) -> None:
    assert [names in it for it in advice("enlarge_queue", "lost_packets", "node", what=what)] == [True] * bool(names)


NAMES = {
    "change_culprit": {
        "hook_tax": "narrow its rules",
        "dead_mount": "/sys/fs/fuse/connections",
        "numa_lopsided": "numa_balancing",
        "unfair_weight": "CPUWeight=",
        "rule_walk": "uniq -d",
        "pipe_full": "non-blocking mode",
        "cache_dropper": "drop_caches",
        "compaction_stall": "transparent_hugepage/defrag",
        "console_flood": "dmesg -n 4",
        "cpu_clocked_down": "turbostat",
        "long_softirq": "TCP_KEEPIDLE",
        "slow_clock": "current_clocksource",
        "slow_fork": "posix_spawn",
        "stopped_tasks": "kill -CONT",
        "unaccounted_memory": "ss -0",
        "vm_paused": "the operator of the host",
    },
    "ask_owner": {
        "crash_looping_container": "kubectl logs --previous",
        "oom_kill": "raise the limit",
        "stolen_cpu": "the operator of the host",
        "conntrack_full": "nf_conntrack_max",
        "lost_routing_rules": "ManageForeignRoutingPolicyRules=no",
    },
}


@pytest.mark.parametrize(
    ("remedy", "sign", "names"), [(remedy, *it) for remedy, its in NAMES.items() for it in its.items()]
)
def test_what_to_change_in_who_does_it_or_whom_to_ask(remedy: str, sign: str, names: str) -> None:
    assert any(names in it for it in advice(remedy, sign, "node"))


def test_what_follows_from_another_cause_ends_with_that_one() -> None:
    cause, effect = finding("oom_kill", "node", SEEN), finding("crash_looping_container", "container:a/b/c", SEEN)
    link = Link(law="oom_kill_to_crash_looping_container", cause=cause, effect=effect, grounds=())
    case = Case(node="n", kernel="6.8.0", span=node([SEEN]).span, findings=(cause, effect), links=(link,))
    assert ask_owner.plan(cause, case, node([SEEN])) and ask_owner.plan(effect, case, node([SEEN])) is None


def test_every_sign_that_can_be_a_first_cause_has_a_remedy_or_advice() -> None:
    """Those without are told by what they follow from, or name what is to be removed themselves."""
    cured = {sign for remedy in healthy("remedies").values() for sign in remedy.CURES}
    assert set(names("signs")) - cured == {
        "blocked_tasks",
        "driver_reset",
        "job_failure",
        "logged_faults",
        "saturated_core",
        "starved_thread",
        "unused_agent",
    }


def test_a_frozen_file_system_is_thawed_where_it_is_known_and_nothing_is_frozen_again() -> None:
    device = replace(SEEN, what="process_blocked_on_device", text="8:16 /srv/data")
    plan = plan_for(finding("frozen_filesystem", "mount:/data", SEEN, device), "thaw_filesystem", node([SEEN]))
    assert plan is not None and plan.risk == "disruptive" and not plan.steps[0].argv
    assert plan.steps[1].argv[-3:] == ("zombiescope.treatment.thaw_command", "8:16", "/srv/data")
    assert not plan.steps[1].undo
    unknown = plan_for(finding("frozen_filesystem", "node", SEEN), "thaw_filesystem", node([SEEN]))
    assert unknown is not None and unknown.risk == "safe" and not any(it.argv for it in unknown.steps)
