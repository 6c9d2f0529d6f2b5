"""Signs of kernel work that stacks show: walks of /proc, locks, rules, long softirqs, hooks; each has a silent case."""

from __future__ import annotations

from types import ModuleType

import pytest
from tests.nodes import Sampled, cores, node, read

from zombiescope.core import Finding, Reading
from zombiescope.core.model import Case
from zombiescope.diagnosis.examine import examine
from zombiescope.laws import (
    hook_tax_to_saturated_core,
    kernel_lock_to_blocked_tasks,
    kernel_lock_to_saturated_core,
    long_softirq_to_starved_softirq,
    mount_explosion_to_kernel_lock,
    proc_walker_to_saturated_core,
    rule_walk_to_saturated_core,
    slow_fork_to_saturated_core,
    zombie_cgroups_to_kernel_lock,
)
from zombiescope.signs import hook_tax, kernel_lock, long_softirq, namespace_churn, proc_walker, rule_walk, slow_fork

SECONDS = 10
CALL = "entry_SYSCALL_64;do_syscall_64;"
SMAPS = CALL + "ksys_read;seq_read_iter;show_smap;smap_gather_stats;walk_page_range;smaps_pte_range"
TCP = CALL + "ksys_read;seq_read_iter;tcp4_seq_show;get_tcp4_sock"
WORK = "main;compute"
SPIN = "_raw_spin_lock;native_queued_spin_lock_slowpath"
MOUNTS = CALL + f"do_sys_openat2;path_openat;path_init;{SPIN}"
RSTAT = f"kthread;kswapd;balance_pgdat;shrink_node;css_rstat_flush;{SPIN}"
MAPS = CALL + "vm_mmap_pgoff;down_write_killable;rwsem_down_write_slowpath;rwsem_spin_on_owner"
RULES = "asm_common_interrupt;handle_softirqs;net_rx_action;ip_rcv;nf_hook_slow;ipt_do_table"
PACKETS = "asm_common_interrupt;handle_softirqs;net_rx_action;ip_rcv;tcp_v4_rcv"
TIMER = "asm_sysvec_apic_timer_interrupt;handle_softirqs;run_timer_softirq;call_timer_fn;estimation_timer"
BPF = CALL + "syscall_trace_enter;bpf_trace_run2;bpf_prog_6deef7357e7b4530_sys_enter"
SECCOMP = CALL + "syscall_trace_enter;__seccomp_filter"
FORK = CALL + "__do_sys_clone;kernel_clone;copy_process;dup_mm;dup_mmap;copy_page_range;copy_pte_range"
AUDIT = CALL + "syscall_exit_work;__audit_syscall_exit;audit_log_exit;audit_log_start"
KEEP_ALIVE = "asm_sysvec_apic_timer_interrupt;handle_softirqs;run_timer_softirq;call_timer_fn;tcp_keepalive_timer"
CNI = "net_rx_action;tcf_classify;cls_bpf_classify;bpf_prog_aa_from_container"


def stacks(who: str, stack: str, share: float, cpu: int = 0, hz: int = 100) -> list[Sampled]:
    """So much of one core, spread over each second."""
    each = round(hz * share)
    return [(second + it / hz, cpu, who, stack) for second in range(SECONDS) for it in range(each)]


def node_readings(*, system: float = 0.5, waiting: float = 0.5) -> list[Reading]:
    spent = cores({0: [{"system": system}] * (SECONDS * 4), 1: [{"user": 0.5}] * (SECONDS * 4)})
    pressed = [read("pressure_cpu_waiting_seconds_total", "node", waiting * at, at) for at in range(SECONDS + 1)]
    return [*spent, *pressed]


def case(sign: ModuleType, *samples: list[Sampled], waiting: float = 0.5, system: float = 0.5) -> Case:
    every = sorted(it for group in samples for it in group)
    timeline = node(node_readings(system=system, waiting=waiting), samples=every)
    return examine(timeline, signs={sign.__name__.rpartition(".")[2]: sign}, laws={})


OTHERS = stacks("trainer[9]", WORK, 0.5, cpu=1)


def test_a_process_that_reads_what_another_maps() -> None:
    (found,) = case(proc_walker, stacks("cadvisor[7]", SMAPS, 0.4), OTHERS).root_causes
    assert found.subject == "process:cadvisor[7]"
    assert found.says.startswith("spent 4.0 s of 9 s reading what a process maps, or marking all its pages (show_smap)")
    assert found.harm.burnt_cores == pytest.approx(0.4, abs=0.05)


def test_in_a_long_recording_a_walk_counts_after_seconds_and_a_short_one_never(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(f"{__name__}.SECONDS", 600)
    others = stacks("trainer[9]", WORK, 0.05, cpu=1)

    def walked(seconds: int) -> Case:
        walk = [(at + it / 100, 0, "cadvisor[7]", SMAPS) for at in range(600 - seconds, 600) for it in range(40)]
        return case(proc_walker, walk, others)

    (found,) = walked(20).root_causes
    assert found.says.startswith("spent 8.0 s of 599 s")
    assert not walked(10).root_causes


def test_sockets_and_files_are_walks_too() -> None:
    (found,) = case(proc_walker, stacks("ss[7]", TCP, 0.3), OTHERS).root_causes
    assert "listing every socket" in found.says
    du = CALL + "vfs_fstatat;vfs_statx"
    (found,) = case(proc_walker, stacks("du[7]", du, 0.3), stacks("gcc[8]", du, 0.3), OTHERS).root_causes
    assert found.subject == "process:du[7]"


def test_a_lock_that_many_spin_for() -> None:
    (found,) = case(
        kernel_lock, stacks("kswapd0[40]", RSTAT, 0.5), stacks("kswapd1[41]", RSTAT, 0.4, cpu=1)
    ).root_causes
    assert found.subject == "lock:cgroup statistics" and found.culprit == "process:kswapd0[40]"
    assert "is spun for by 0.9 cores" in found.says and "asked for in css_rstat_flush" in found.says
    (mounts,) = case(kernel_lock, stacks("runc[7]", MOUNTS, 0.5)).root_causes
    (maps,) = case(kernel_lock, stacks("java[7]", MAPS, 0.5)).root_causes
    assert (mounts.subject, maps.subject) == ("lock:mounts", "lock:a memory map")


def test_a_lock_that_nobody_knows_is_called_after_who_asks_for_it() -> None:
    (found,) = case(kernel_lock, stacks("x[7]", CALL + f"my_driver_ioctl;{SPIN}", 0.5)).root_causes
    assert found.subject == "lock:my_driver_ioctl"


def test_firewall_rules_that_take_most_of_the_packets_time() -> None:
    (found,) = case(
        rule_walk, stacks("swapper/0[0]", RULES, 0.4), stacks("swapper/0[0]", PACKETS, 0.1, cpu=1)
    ).root_causes
    assert found.subject == "node" and "80 % of the time that packets take" in found.says


def test_a_timer_that_goes_through_all_services() -> None:
    runs = [(second + it / 100, 0, "swapper/0[0]", TIMER) for second in range(0, SECONDS, 2) for it in range(20)]
    (found,) = case(long_softirq, runs, OTHERS).root_causes
    assert (
        found.subject == "cpu:0"
        and "ran estimation_timer (going through all IPVS services) for up to 200 ms" in found.says
    )


def test_a_program_at_every_system_call() -> None:
    (found,) = case(hook_tax, stacks("nginx[7]", BPF, 0.3), OTHERS).root_causes
    assert found.subject == "hook:BPF program sys_enter" and "most in nginx[7]" in found.says


def test_filters_and_audit_at_every_system_call() -> None:
    (found,) = case(hook_tax, stacks("nginx[7]", SECCOMP, 0.4), OTHERS).root_causes
    assert found.subject == "hook:a seccomp filter" and "most in nginx[7]" in found.says
    (found,) = case(hook_tax, stacks("nginx[7]", AUDIT, 0.4), OTHERS).root_causes
    assert found.subject == "hook:audit" and found.harm.waited_cores


def test_a_monitor_that_keeps_the_driver_busy_and_a_job_that_uses_it() -> None:
    query = CALL + "__x64_sys_ioctl;nvidia_unlocked_ioctl"
    (found,) = case(proc_walker, stacks("dcgm-exporter[7]", query, 0.5), stacks("trainer[9]", query, 0.5)).root_causes
    assert found.subject == "process:dcgm-exporter[7]" and "asking a GPU's driver" in found.says


def test_mounts_and_network_namespaces_that_come_and_go_are_noted_with_who_makes_them() -> None:
    mounts = CALL + "__x64_sys_mount;path_mount;attach_recursive_mnt"
    (found,) = case(namespace_churn, stacks("runc[7]", mounts, 0.4), OTHERS).noted
    assert found.subject == "table:mounts" and found.culprit == "process:runc[7]" and "most by runc[7]" in found.says
    (spaces,) = case(namespace_churn, stacks("kworker/u8:1[40]", "kthread;process_one_work;cleanup_net", 0.4)).noted
    assert spaces.subject == "table:network namespaces"


def forked(each: float, *samples: list[Sampled]) -> Case:
    made = [read("forks_total", "node", each * at, at) for at in range(SECONDS + 1)]
    timeline = node([*node_readings(), *made], samples=sorted(it for group in samples for it in group))
    return examine(timeline, signs={"slow_fork": slow_fork}, laws={})


def test_a_large_process_that_forks_all_the_time() -> None:
    copies = stacks("kubelet[7]", FORK, 0.5)
    (found,) = forked(20.0, copies, OTHERS).root_causes
    assert found.subject == "process:kubelet[7]" and "page tables for new processes, 26 ms for each" in found.says
    core = Finding(subject="cpu:0", span=found.span, says="", evidence=found.evidence)
    there, elsewhere = node([], samples=copies), node([], samples=stacks("kubelet[7]", WORK, 0.5))
    assert list(slow_fork_to_saturated_core.grounds(found, core, there))
    assert not list(slow_fork_to_saturated_core.grounds(found, core, elsewhere))


@pytest.mark.parametrize(
    ("each", "samples"),
    [
        (2_000.0, stacks("sh[7]", FORK, 0.5)),
        (20.0, stacks("kubelet[7]", FORK, 0.05)),
        (1.0, [(it / 100, 0, "redis[7]", FORK) for it in range(200)]),
    ],
    ids=["many small ones", "a little", "one large one"],
)
def test_forks_that_are_no_fault(each: float, samples: list[Sampled]) -> None:
    result = forked(each, samples, OTHERS)
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


def test_timers_that_expire_together() -> None:
    runs = [(second + it / 100, 0, "swapper/0[0]", KEEP_ALIVE) for second in range(SECONDS) for it in range(6)]
    (found,) = case(long_softirq, runs, OTHERS).root_causes
    assert "ran tcp_keepalive_timer (keeping thousands of idle connections alive at the same moment)" in found.says
    spread = [(second / 10, 0, "swapper/0[0]", KEEP_ALIVE) for second in range(SECONDS * 10)]
    assert not case(long_softirq, spread, OTHERS).findings


@pytest.mark.parametrize(
    ("sign", "samples"),
    [
        (proc_walker, stacks("ps[7]", CALL + "proc_pid_readdir", 0.05)),
        (proc_walker, stacks("gcc[7]", CALL + "vfs_fstatat;vfs_statx", 0.5)),
        (kernel_lock, stacks("x[7]", MOUNTS, 0.02)),
        (kernel_lock, stacks("x[7]", CALL + "path_init;_raw_spin_lock", 0.5)),
        (rule_walk, [*stacks("swapper/0[0]", RULES, 0.05), *stacks("swapper/0[0]", PACKETS, 0.6)]),
        (rule_walk, stacks("swapper/0[0]", RULES, 0.1)),
        (long_softirq, stacks("swapper/0[0]", PACKETS, 0.8)),
        (long_softirq, [(second + 0.0, 0, "swapper/0[0]", TIMER) for second in range(SECONDS)]),
        (hook_tax, stacks("swapper/0[0]", CNI, 0.5)),
        (hook_tax, stacks("nginx[7]", SECCOMP, 0.02)),
        (namespace_churn, stacks("runc[7]", CALL + "path_mount;attach_recursive_mnt", 0.1)),
        (namespace_churn, stacks("mount[7]", CALL + "path_mount;vfs_get_tree;ext4_fill_super", 0.8)),
    ],
    ids=lambda it: getattr(it, "__name__", "").rpartition(".")[2] or str(len(it)),
)
def test_silent(sign: ModuleType, samples: list[Sampled]) -> None:
    result = case(sign, samples, OTHERS)
    assert not result.findings and result.verdicts[0].state == "clear" and result.verdicts[0].evidence


def test_where_nobody_waits_a_walk_is_noted() -> None:
    result = case(proc_walker, stacks("cadvisor[7]", SMAPS, 0.4), waiting=0.0)
    assert [it.sign for it in result.noted] == ["proc_walker"]


@pytest.mark.parametrize("sign", [proc_walker, kernel_lock, rule_walk, long_softirq, hook_tax])
def test_blind_without_stacks(sign: ModuleType) -> None:
    unseen = {"samples_total": "operation not permitted", "kernel_symbols": "operation not permitted"}
    result = examine(node([], unseen=unseen), signs={"it": sign}, laws={})
    assert result.verdicts[0].state == "blind"


def finding(subject: str, text: str = "") -> Finding:
    reading = read("x", subject, 5000, 5, text)
    return Finding(
        subject=subject, span=node([read("x", "node", 1, it) for it in (0, 10)]).span, says="", evidence=(reading,)
    )


@pytest.mark.parametrize(
    ("law", "stack"),
    [
        (proc_walker_to_saturated_core, SMAPS),
        (rule_walk_to_saturated_core, RULES),
        (kernel_lock_to_saturated_core, MOUNTS),
        (hook_tax_to_saturated_core, BPF),
    ],
)
def test_what_fills_a_core(law: ModuleType, stack: str) -> None:
    core = finding("cpu:0")
    full, other = (node([], samples=stacks("a[7]", it, 0.9)) for it in (stack, WORK))
    assert [it.kind for it in law.grounds(finding("process:a[7]"), core, full)] == ["mechanism"]
    assert not list(law.grounds(finding("process:a[7]"), core, other))


def test_what_leads_to_a_lock_and_what_follows() -> None:
    timeline = node([])
    mounts, statistics = finding("lock:mounts"), finding("lock:cgroup statistics")
    assert list(mount_explosion_to_kernel_lock.grounds(finding("node"), mounts, timeline))
    assert not list(mount_explosion_to_kernel_lock.grounds(finding("node"), statistics, timeline))
    assert list(zombie_cgroups_to_kernel_lock.grounds(finding("controller:memory"), statistics, timeline))
    assert not list(zombie_cgroups_to_kernel_lock.grounds(finding("controller:memory"), mounts, timeline))
    blocked = finding("process:a[7]", "rwsem_down_write_slowpath")
    assert list(kernel_lock_to_blocked_tasks.grounds(mounts, blocked, timeline))
    assert not list(kernel_lock_to_blocked_tasks.grounds(mounts, finding("process:a[7]", "io_schedule"), timeline))
    assert list(long_softirq_to_starved_softirq.grounds(finding("cpu:0"), finding("cpu:0"), timeline))
    assert not list(long_softirq_to_starved_softirq.grounds(finding("cpu:0"), finding("cpu:1"), timeline))
