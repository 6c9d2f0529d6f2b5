"""Kernel messages: every driver's and every age's wording is one kind with one spelling; ordinary lines are nothing."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.nodes import node, read

from zombiescope.core.timeline import Timeline
from zombiescope.derived.kernel_log import lines_of, unheard
from zombiescope.knowledge.kernel_messages import _formats, recognise

DATA = Path(os.environ.get("ZOMBIESCOPE_EXTERNAL_DATA", Path(__file__).parents[3] / "shared" / "data"))
ENA = "ena 0000:00:05.0 eth0: "
OF_ENA = {"driver": "ena", "device": "0000:00:05.0", "nic": "eth0"}
KILLED = "total-vm:327128kB, anon-rss:306328kB, file-rss:11132kB, shmem-rss:0kB, UID:0 pgtables:900kB oom_score_adj:999"
SIZES = {"total_kb": "327128", "anon_kb": "306328", "file_kb": "11132"}

# One line of each format, in each wording it has had: what it is, and every field.
FORMATS: list[tuple[str, str, dict[str, str]]] = [
    # ENA, oldest first
    (
        ENA + "Found a Tx that wasn't completed on time, qid 2, index 961.",
        "nic_tx_stuck",
        {**OF_ENA, "queue": "2", "index": "961"},
    ),
    (
        ENA + "Found a Tx that wasn't completed on time, qid 2, index 0. 5756000 usecs have passed since last napi "
        "execution. Missing Tx timeout value 5000 msecs",
        "nic_tx_stuck",
        {**OF_ENA, "queue": "2", "index": "0", "since_napi_seconds": "5.756", "threshold_seconds": "5"},
    ),
    (
        ENA + "TX hasn't completed, qid 3, index 12. 6000001 usecs from last napi execution, napi scheduled: 1",
        "nic_tx_stuck",
        {**OF_ENA, "queue": "3", "index": "12", "since_napi_seconds": "6.000001", "napi_scheduled": "1"},
    ),
    (
        ENA + "TX hasn't completed, qid 3, index 12. 6100 msecs since last interrupt, 7000 msecs since last napi "
        "execution, napi scheduled: 0",
        "nic_tx_stuck",
        {
            **OF_ENA,
            "queue": "3",
            "index": "12",
            "since_interrupt_seconds": "6.1",
            "since_napi_seconds": "7",
            "napi_scheduled": "0",
        },
    ),
    (
        ENA + "TX hasn't completed, qid: 3, index: 12, 6000 msecs since interrupt, 7000 msecs since napi, napi "
        "scheduled: 1",
        "nic_tx_stuck",
        {
            **OF_ENA,
            "queue": "3",
            "index": "12",
            "since_interrupt_seconds": "6",
            "since_napi_seconds": "7",
            "napi_scheduled": "1",
        },
    ),
    (
        ENA + "[1/2] 17 new missed TX completions, qid: 5, 6001 msecs since interrupt, 6002 msecs since napi, napi "
        "scheduled: 1",
        "nic_tx_stuck",
        {
            **OF_ENA,
            "missed": "17",
            "queue": "5",
            "since_interrupt_seconds": "6.001",
            "since_napi_seconds": "6.002",
            "napi_scheduled": "1",
        },
    ),
    (
        ENA + "[2/2] qid: 5, highest TX completion pending time (msec): 6400, napi sched changes: 2, napi CPU: 39",
        "nic_tx_stuck",
        {**OF_ENA, "queue": "5", "stuck_seconds": "6.4", "napi_sched_changes": "2", "cpu": "39"},
    ),
    (
        ENA + "The number of lost tx completion is above the threshold (129 > 128). Reset the device",
        "nic_tx_stuck",
        {**OF_ENA, "lost": "129", "threshold": "128"},
    ),
    (
        ENA + "The number of lost tx completions is above the threshold (129 > 128). Reset the device",
        "nic_tx_stuck",
        {**OF_ENA, "lost": "129", "threshold": "128"},
    ),
    (
        ENA + "Lost TX completions are above the threshold (1019 > 128). Completion transmission timeout: 5000.",
        "nic_tx_stuck",
        {**OF_ENA, "lost": "1019", "threshold": "128", "threshold_seconds": "5"},
    ),
    (
        ENA + "Lost TX completions are above the threshold (1019 > 128). Completion transmission timeout: 5000 (msec). "
        "21000 msecs since last interrupt, 21500 msecs since last napi execution.",
        "nic_tx_stuck",
        {
            **OF_ENA,
            "lost": "1019",
            "threshold": "128",
            "threshold_seconds": "5",
            "since_interrupt_seconds": "21",
            "since_napi_seconds": "21.5",
        },
    ),
    (
        ENA
        + "[1/2] Lost TX completions are above threshold (1019 > 128), completion timeout: 5000 (msec), 21000 msecs "
        "since interrupt, 21500 msecs since napi, qid: 5",
        "nic_tx_stuck",
        {
            **OF_ENA,
            "lost": "1019",
            "threshold": "128",
            "threshold_seconds": "5",
            "since_interrupt_seconds": "21",
            "since_napi_seconds": "21.5",
            "queue": "5",
        },
    ),
    # Its second line calls the core qid and the queue a CPU.
    (ENA + "[2/2] qid: 39, napi CPU: 5", "nic_tx_stuck", {**OF_ENA, "queue": "5", "cpu": "39"}),
    (
        ENA + "TX q 5 is paused for too long (threshold 5000000). Time since last napi 6012000 usec. napi scheduled: 1",
        "nic_tx_stuck",
        {**OF_ENA, "queue": "5", "threshold_seconds": "5", "since_napi_seconds": "6.012", "napi_scheduled": "1"},
    ),
    (
        ENA
        + "TX q 5 is paused for too long (threshold 5000000). Time since last napi 6012000 usec. napi scheduled: 1. "
        "msecs since last interrupt: 6100",
        "nic_tx_stuck",
        {
            **OF_ENA,
            "queue": "5",
            "threshold_seconds": "5",
            "since_napi_seconds": "6.012",
            "napi_scheduled": "1",
            "since_interrupt_seconds": "6.1",
        },
    ),
    (
        ENA + "TX q 5 is paused for too long (threshold 5000000). usecs since napi 6012000. napi scheduled: 1. napi "
        "CPU: 39. msecs since interrupt: 6100",
        "nic_tx_stuck",
        {
            **OF_ENA,
            "queue": "5",
            "threshold_seconds": "5",
            "since_napi_seconds": "6.012",
            "napi_scheduled": "1",
            "cpu": "39",
            "since_interrupt_seconds": "6.1",
        },
    ),
    (ENA + "napi handler hasn't been called for a long time but is scheduled", "nic_poll_starved", OF_ENA),
    (ENA + "Keep alive watchdog timeout.", "nic_keep_alive", OF_ENA),
    (
        ENA + "Keep alive watchdog timeout, 6080 msecs since last keep alive.",
        "nic_keep_alive",
        {**OF_ENA, "since_keep_alive_seconds": "6.08"},
    ),
    (ENA + "ENA admin queue is not in running state!", "nic_health", OF_ENA),
    ("ena: ENA admin queue is not in running state!", "nic_health", {"driver": "ena"}),
    (
        ENA + "Potential MSIX issue on Tx side Queue = 3. Reset the device",
        "nic_health",
        {**OF_ENA, "side": "Tx", "queue": "3"},
    ),
    (ENA + "Potential MSIX issue on Rx side Queue = 31.", "nic_health", {**OF_ENA, "side": "Rx", "queue": "31"}),
    (ENA + "Trigger refill for ring 4", "nic_health", {**OF_ENA, "queue": "4"}),
    (ENA + "Trigger reset is on", "nic_reset", OF_ENA),
    (ENA + "Resetting the device", "nic_reset", OF_ENA),
    (
        "ena 0000:00:05.0: Device reset completed successfully",
        "nic_reset",
        {"driver": "ena", "device": "0000:00:05.0"},
    ),
    (
        "ena 0000:00:05.0: Device reset completed successfully, Driver info: Elastic Network Adapter (ENA) v2.4.0g",
        "nic_reset",
        {"driver": "ena", "device": "0000:00:05.0", "driver_info": "Elastic Network Adapter (ENA) v2.4.0g"},
    ),
    (
        "ena 0000:00:05.0: Device reset completed, status: -62, Driver info: ENA v2.17.0g",
        "nic_reset",
        {"driver": "ena", "device": "0000:00:05.0", "status": "-62", "driver_info": "ENA v2.17.0g"},
    ),
    # The watchdog of the kernel, three generations. Its CPU is the one whose timer ran, not the queue's.
    (
        "NETDEV WATCHDOG: eth0 (e1000): transmit queue 0 timed out",
        "nic_tx_stuck",
        {"nic": "eth0", "driver": "e1000", "queue": "0"},
    ),
    (
        "NETDEV WATCHDOG: eth0 (mlx5_core): transmit queue 31 timed out 5500 ms",
        "nic_tx_stuck",
        {"nic": "eth0", "driver": "mlx5_core", "queue": "31", "stuck_seconds": "5.5"},
    ),
    (
        "virtio_net virtio0 eth0: NETDEV WATCHDOG: CPU: 1: transmit queue 0 timed out 5500 ms",
        "nic_tx_stuck",
        {
            "driver": "virtio_net",
            "device": "virtio0",
            "nic": "eth0",
            "watchdog_cpu": "1",
            "queue": "0",
            "stuck_seconds": "5.5",
        },
    ),
    (
        "zslab9 (unregistering): NETDEV WATCHDOG: CPU: 1: transmit queue 0 timed out 5500 ms",
        "nic_tx_stuck",
        {"nic": "zslab9", "watchdog_cpu": "1", "queue": "0", "stuck_seconds": "5.5"},
    ),
    # Other drivers
    (
        "virtio_net virtio0 eth0: TX timeout on queue: 0, sq: output.0, vq: 0x1, name: output.0, 7560000 usecs ago",
        "nic_tx_stuck",
        {
            "driver": "virtio_net",
            "device": "virtio0",
            "nic": "eth0",
            "queue": "0",
            "sq": "output.0",
            "vq": "0x1",
            "stuck_seconds": "7.56",
        },
    ),
    (
        "gve 0000:00:04.0 ens4: Timeout on tx queue, 3",
        "nic_tx_stuck",
        {"driver": "gve", "device": "0000:00:04.0", "nic": "ens4", "queue": "3"},
    ),
    (
        "gve 0000:00:04.0 ens4: Kicking queue 3",
        "nic_tx_stuck",
        {"driver": "gve", "device": "0000:00:04.0", "nic": "ens4", "queue": "3"},
    ),
    (
        "mlx5_core 0000:41:00.0 eth0: TX timeout on queue: 3, SQ: 0x12f, CQ: 0x4a1, SQ Cons: 0x8 SQ Prod: 0x9, usecs "
        "since last trans: 21380000",
        "nic_tx_stuck",
        {
            "driver": "mlx5_core",
            "device": "0000:41:00.0",
            "nic": "eth0",
            "queue": "3",
            "sq": "0x12f",
            "cq": "0x4a1",
            "cons": "0x8",
            "prod": "0x9",
            "stuck_seconds": "21.38",
        },
    ),
    (
        "mlx5_core 0000:41:00.0 eth0: TX timeout on queue: 3, SQ: 0x12f, CQ: 0x4a1, SQ Cons: 0x8 SQ Prod: 0x9",
        "nic_tx_stuck",
        {
            "driver": "mlx5_core",
            "device": "0000:41:00.0",
            "nic": "eth0",
            "queue": "3",
            "sq": "0x12f",
            "cq": "0x4a1",
            "cons": "0x8",
            "prod": "0x9",
        },
    ),
    (
        "mlx5_core 0000:41:00.0 eth0: TX timeout detected",
        "nic_tx_stuck",
        {"driver": "mlx5_core", "device": "0000:41:00.0", "nic": "eth0"},
    ),
    (
        "mlx5_core 0000:41:00.0 eth0: Recover 7 eqes on EQ 0x12",
        "nic_tx_stuck",
        {"driver": "mlx5_core", "device": "0000:41:00.0", "nic": "eth0", "recovered": "7", "eq": "0x12"},
    ),
    (
        "mlx5_core 0000:41:00.0: poll_health:852:(pid 0): device's health compromised - reached miss count",
        "nic_health",
        {"driver": "mlx5_core", "device": "0000:41:00.0"},
    ),
    (
        "i40e 0000:18:00.0 eno1: tx_timeout: VSI_seid: 390, Q 4, NTC: 0x1a0, HWB: 0x66, NTU: 0x66, TAIL: 0x6, INT: 0x1",
        "nic_tx_stuck",
        {"driver": "i40e", "device": "0000:18:00.0", "nic": "eno1", "vsi": "390", "queue": "4", "ntc": "0x1a0"},
    ),
    (
        "i40e 0000:18:00.0 eno1: tx_timeout recovery level 1, hung_queue 4",
        "nic_reset",
        {"driver": "i40e", "device": "0000:18:00.0", "nic": "eno1", "level": "1", "queue": "4"},
    ),
    (
        "ice 0000:b1:00.0 ens801f0np0: tx_timeout recovery level 2, txqueue 14",
        "nic_reset",
        {"driver": "ice", "device": "0000:b1:00.0", "nic": "ens801f0np0", "level": "2", "queue": "14"},
    ),
    (
        "i40e 0000:18:00.0 eno1: tx_timeout recovery unsuccessful",
        "nic_reset",
        {"driver": "i40e", "device": "0000:18:00.0", "nic": "eno1"},
    ),
    (
        "ice 0000:b1:00.0 ens801f0np0: tx_timeout: VSI_num: 6, Q 14, NTC: 0x0, HW_HEAD: 0x0, NTU: 0x0, INT: 0x4000001",
        "nic_tx_stuck",
        {"driver": "ice", "device": "0000:b1:00.0", "nic": "ens801f0np0", "vsi": "6", "queue": "14", "ntc": "0x0"},
    ),
    # Cores and tasks
    (
        "NMI watchdog: BUG: soft lockup - CPU#48 stuck for 22s! [java:40646]",
        "soft_lockup",
        {"cpu": "48", "seconds": "22", "process": "java", "pid": "40646"},
    ),
    (
        "watchdog: BUG: soft lockup - CPU#5 stuck for 23s! [kworker/u16:4:103]",
        "soft_lockup",
        {"cpu": "5", "seconds": "23", "process": "kworker/u16:4", "pid": "103"},
    ),
    (
        "watchdog: BUG: soft lockup - CPU#5 stuck for 23s! [VM Thread:4054]",
        "soft_lockup",
        {"cpu": "5", "seconds": "23", "process": "VM Thread", "pid": "4054"},
    ),
    ("NMI watchdog: Watchdog detected hard LOCKUP on cpu 3", "hard_lockup", {"cpu": "3"}),
    ("watchdog: CPU3: Watchdog detected hard LOCKUP on cpu 3", "hard_lockup", {"cpu": "3"}),
    ("rcu: INFO: rcu_sched self-detected stall on CPU", "rcu_stall", {"flavour": "rcu_sched"}),
    (
        "INFO: rcu_sched self-detected stall on CPU { 4}  (t=5250 jiffies g=99)",
        "rcu_stall",
        {"flavour": "rcu_sched", "cpu": "4"},
    ),
    ("rcu: INFO: rcu_preempt detected stalls on CPUs/tasks:", "rcu_stall", {"flavour": "rcu_preempt"}),
    (
        "rcu: INFO: rcu_preempt detected expedited stalls on CPUs/tasks: { 4-.... } 21 jiffies s: 1221",
        "rcu_stall",
        {"flavour": "rcu_preempt", "cpu": "4"},
    ),
    (
        "rcu: \t4-....: (5249 ticks this GP) idle=8ac/1/0x4000000000000000 softirq=1221/1221 fqs=2625",
        "rcu_stall",
        {"cpu": "4", "ticks": "5249"},
    ),
    ("rcu: \t12-...!: (3 GPs behind) idle=8ac/0/0x0 softirq=12/12 fqs=0", "rcu_stall", {"cpu": "12", "behind": "3"}),
    (
        "INFO: task docker:20744 blocked for more than 120 seconds.",
        "hung_task",
        {"process": "docker", "pid": "20744", "seconds": "120"},
    ),
    (
        "INFO: task kworker/u16:4:103 blocked in I/O wait for more than 241 seconds.",
        "hung_task",
        {"process": "kworker/u16:4", "pid": "103", "seconds": "241"},
    ),
    (
        "workqueue: drm_fb_helper_damage_work [drm_kms_helper] hogged CPU for >10000us 4 times, consider switching to "
        "WQ_UNBOUND",
        "workqueue_hog",
        {"function": "drm_fb_helper_damage_work", "module": "drm_kms_helper", "hogged_seconds": "0.01", "times": "4"},
    ),
    (
        "workqueue: css_killed_work_fn hogged CPU for >10000us 8 times, consider switching to WQ_UNBOUND",
        "workqueue_hog",
        {"function": "css_killed_work_fn", "hogged_seconds": "0.01", "times": "8"},
    ),
    # Memory and tables
    (
        f"Memory cgroup out of memory: Killed process 4242 (python3) {KILLED}",
        "oom_kill",
        {"why": "Memory cgroup out of memory", "pid": "4242", "process": "python3", **SIZES},
    ),
    (
        f"Out of memory: Killed process 4242 (tmux: server) {KILLED}",
        "oom_kill",
        {"why": "Out of memory", "pid": "4242", "process": "tmux: server", **SIZES},
    ),
    (
        "Killed process 4242 (a) b) total-vm:327128kB, anon-rss:306328kB, file-rss:11132kB",
        "oom_kill",
        {"pid": "4242", "process": "a) b", **SIZES},
    ),
    (
        "Killed process 4242 (python3), UID 1000, total-vm:327128kB, anon-rss:306328kB, file-rss:11132kB",
        "oom_kill",
        {"pid": "4242", "process": "python3", "uid": "1000", **SIZES},
    ),
    (
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=cri-containerd-7f,mems_allowed=0-1,"
        "oom_memcg=/kubepods/pod1,task_memcg=/kubepods/pod1/7f,task=python3,pid=4242,uid=0",
        "oom_context",
        {
            "constraint": "MEMCG",
            "cpuset": "cri-containerd-7f",
            "oom_memcg": "/kubepods/pod1",
            "task_memcg": "/kubepods/pod1/7f",
            "process": "python3",
            "pid": "4242",
            "uid": "0",
        },
    ),
    (
        "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=/,mems_allowed=0,global_oom,"
        "task_memcg=/a,task=b,task=c,pid=7,uid=0",
        "oom_context",
        {"constraint": "NONE", "cpuset": "/", "task_memcg": "/a", "process": "b,task=c", "pid": "7", "uid": "0"},
    ),
    (
        "Task in /docker/7f killed as a result of limit of /docker",
        "oom_context",
        {"task_memcg": "/docker/7f", "oom_memcg": "/docker"},
    ),
    ("nf_conntrack: nf_conntrack: table full, dropping packet", "conntrack_full", {}),
    ("nf_conntrack: table full, dropping packet.", "conntrack_full", {}),
    ("ip_conntrack: table full, dropping packet.", "conntrack_full", {}),
    (
        "nf_conntrack: nf_conntrack: table full in netns 4026532281, dropping packet",
        "conntrack_full",
        {"netns": "4026532281"},
    ),
    (
        "mkdir /sys/fs/cgroup/memory/docker/406cfca0c0a5: no space left on device",
        "cgroup_exhausted",
        {"path": "/sys/fs/cgroup/memory/docker/406cfca0c0a5", "why": "no space left on device"},
    ),
    (
        "dockerd[7]: mkdir /sys/fs/cgroup/memory/docker: cannot allocate memory",
        "cgroup_exhausted",
        {"path": "/sys/fs/cgroup/memory/docker", "why": "cannot allocate memory"},
    ),
    ("SLUB: Unable to allocate memory on node -1 (gfp=0x2088020)", "cgroup_exhausted", {"node": "-1"}),
    ('kubelet[1373]: "Failed to delete cgroup paths" cgroupName=[kubepods besteffort pod482]', "cgroup_stuck", {}),
    (
        "kubelet[1373]: Timed out while waiting for systemd to remove kubepods-pod4.slice",
        "cgroup_stuck",
        {"unit": "kubepods-pod4.slice"},
    ),
    # systemd
    (
        "systemd[1]: ecs.service: Scheduled restart job, restart counter is at 179.",
        "unit_restart",
        {"unit": "ecs.service", "counter": "179"},
    ),
    (
        "systemd[1]: ecs.service: Service hold-off time over, scheduling restart.",
        "unit_restart",
        {"unit": "ecs.service"},
    ),
    ("ecs.service holdoff time over, scheduling restart.", "unit_restart", {"unit": "ecs.service"}),
    (
        "ecs.service: Service has no hold-off time (RestartSec=0), scheduling restart.",
        "unit_restart",
        {"unit": "ecs.service"},
    ),
    (
        "ecs.service: Service RestartSec=1min 30s expired, scheduling restart.",
        "unit_restart",
        {"unit": "ecs.service", "pause": "1min 30s"},
    ),
    ("ecs.service: Start request repeated too quickly.", "unit_start_limit", {"unit": "ecs.service"}),
    ("ecs.service start request repeated too quickly, refusing to start.", "unit_start_limit", {"unit": "ecs.service"}),
]

# What a node says all day: none of it is an event, though some of it is near.
ORDINARY = """
Linux version 6.1.0-18-amd64 (debian-kernel@lists.debian.org) (gcc-12 (Debian 12.2.0-14) 12.2.0) #1 SMP
Command line: BOOT_IMAGE=/boot/vmlinuz root=/dev/nvme0n1p1 ro console=tty0 nvme_core.io_timeout=4294967295
BIOS-e820: [mem 0x0000000000100000-0x00000000bffe9fff] usable
x86/fpu: Supporting XSAVE feature 0x001: 'x87 floating point registers'
DMI: Amazon EC2 p4d.24xlarge/, BIOS 1.0 10/16/2017
tsc: Detected 2999.998 MHz processor
Zone ranges:
  Normal   [mem 0x0000000100000000-0x000000bfbfffffff]
rcu: Preemptible hierarchical RCU implementation.
rcu: \tRCU event tracing is enabled.
rcu: RCU calculated value of scheduler-enlistment delay is 25 jiffies.
rcu: Adjusting geometry for rcu_fanout_leaf=16, nr_cpu_ids=96
rcu: Hierarchical SRCU implementation.
NR_IRQS: 524544, nr_irqs: 2168, preallocated irqs: 16
Console: colour dummy device 80x25
Memory: 1191440252K/1207959100K available (14348K kernel code, 2338K rwdata, 9036K rodata)
SLUB: HWalign=64, Order=0-3, MinObjects=0, CPUs=96, Nodes=2
Mount-cache hash table entries: 524288 (order: 10, 4194304 bytes, linear)
cgroup: Disabling memory control group subsystem
cgroup: fork rejected by pids controller in /kubepods/besteffort/pod1
smp: Bringing up secondary CPUs ...
watchdog: Delayed init of the lockup detector failed: -16
NMI watchdog: Enabled. Permanently consumes one hw-PMU counter.
watchdog: Disabling watchdog on nohz_full cores by default
NET: Registered PF_INET protocol family
TCP established hash table entries: 524288 (order: 10, 4194304 bytes, linear)
pci 0000:00:05.0: [1d0f:ec20] type 00 class 0x020000
pci 0000:00:05.0: reg 0x10: [mem 0xfebf4000-0xfebf7fff]
pcieport 0000:10:00.0: AER: Corrected error received: 0000:10:00.0
ena 0000:00:05.0: enabling device (0000 -> 0002)
ena 0000:00:05.0: ENA device version: 0.10
ena 0000:00:05.0: ENA controller version: 0.0.1 implementation version 1
ena 0000:00:05.0: LLQ is not supported Fallback to host mode policy.
ena 0000:00:05.0: Elastic Network Adapter (ENA) found at mem febf4000, mac addr 0a:f8:4f:2d:11:03
ena 0000:00:05.0 ens5: renamed from eth0
ena 0000:00:05.0 ens5: Local page cache is disabled for less than 16 channels
ena 0000:00:05.0 ens5: Set MTU to 9001
ena 0000:00:05.0 ens5: link up
total_resets: 0
queue_0_tx_cnt: 3925390
virtio_net virtio2 eth0: entered promiscuous mode
virtio_net virtio2 eth0: left promiscuous mode
gve 0000:00:04.0: GVE version 1.0.0
gve 0000:00:04.0 ens4: Device link is up.
gve 0000:00:04.0: Performing reset is not in this sentence
mlx5_core 0000:41:00.0: firmware version: 20.31.1014
mlx5_core 0000:41:00.0: 126.016 Gb/s available PCIe bandwidth (8.0 GT/s PCIe x16 link)
mlx5_core 0000:41:00.0: Port module event: module 0, Cable plugged
mlx5_core 0000:41:00.0 eth0: Link up
i40e 0000:18:00.0: fw 6.0.48442 api 1.7 nvm 6.01 0x80003554 1.1747.0
i40e 0000:18:00.0 eno1: NIC Link is Up, 10 Gbps Full Duplex, Flow Control: None
i40e 0000:18:00.0: VSI seid 390 Rx ring 0 disable timeout
ice 0000:b1:00.0: The DDP package was successfully loaded: ICE OS Default Package version 1.3.30.0
ice 0000:b1:00.0: PTP reset successful
e1000e 0000:00:1f.6 eno1: NIC Link is Down
bond0: (slave eth1): link status definitely down, disabling slave
br-7f: port 1(veth5f1a) entered blocking state
br-7f: port 1(veth5f1a) entered forwarding state
eth0: renamed from vethc8d2
IPv6: ADDRCONF(NETDEV_CHANGE): veth5f1a: link becomes ready
device veth5f1a left promiscuous mode
unregister_netdevice: waiting for lo to become free. Usage count = 1
nf_conntrack: default automatic helper assignment has been turned off for security reasons
nf_conntrack version 0.5.0 (65536 buckets, 262144 max)
TCP: request_sock_TCP: Possible SYN flooding on port 443. Sending cookies.  Check SNMP counters.
TCP: out of memory -- consider tuning tcp_mem
nvme nvme0: 8/0/0 default/read/poll queues
nvme nvme0: I/O 213 QID 4 timeout, aborting
nvme nvme0: resetting controller
EXT4-fs (nvme0n1p1): mounted filesystem with ordered data mode. Quota mode: none.
EXT4-fs (nvme0n1p1): re-mounted. Opts: discard
XFS (nvme1n1): Mounting V5 Filesystem
XFS (nvme1n1): Ending clean mount
overlayfs: missing 'lowerdir'
overlay: filesystem on /var/lib/containerd not supported as upperdir
blk_update_request: I/O error, dev loop0, sector 0
loop0: detected capacity change from 0 to 8
Buffer I/O error on dev dm-0, logical block 0, async page read
systemd[1]: systemd 252.22-1~deb12u1 running in system mode
systemd[1]: Detected virtualization amazon.
systemd[1]: Hostname set to <ip-10-0-0-7>.
systemd[1]: Queued start job for default target graphical.target.
systemd[1]: Created slice system-getty.slice - Slice /system/getty.
systemd[1]: ecs.service: Main process exited, code=exited, status=5/NOTINSTALLED
systemd[1]: ecs.service: Failed with result 'exit-code'.
systemd[1]: ecs.service: Consumed 1.034s CPU time.
systemd[1]: Started ecs.service - Amazon Elastic Container Service - container agent.
systemd[1]: Reached target sysinit.target - System Initialization.
systemd-journald[412]: Received client request to flush runtime journal.
systemd-journald[412]: Time jumped backwards, rotating.
audit: type=1400 audit(1706543210.417:2): apparmor="STATUS" operation="profile_load"
audit: type=1325 audit(1706543211.101:9): table=filter family=2 entries=0
usb 1-1: new full-speed USB device number 2 using xhci_hcd
input: Power Button as /devices/LNXSYSTM:00/LNXPWRBN:00/input/input0
random: crng init done
clocksource: Switched to clocksource kvm-clock
clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable
hrtimer: interrupt took 1734203 ns
perf: interrupt took too long (2532 > 2500), lowering kernel.perf_event_max_sample_rate to 79000
INFO: NMI handler (perf_event_nmi_handler) took too long to run: 1.234 msecs
mce: [Hardware Error]: Machine check events logged
CPU12: Core temperature above threshold, cpu clock throttled (total events = 1)
sched: RT throttling activated
python3 invoked oom-killer: gfp_mask=0xcc0(GFP_KERNEL), order=0, oom_score_adj=999
memory: usage 524288kB, limit 524288kB, failcnt 12
Tasks state (memory values in pages):
[   4242]     0  4242    81782    76582   921600        0           999 python3
oom_reaper: reaped process 4242 (python3), now anon-rss:0kB, file-rss:0kB, shmem-rss:0kB
Tasks in /kubepods/pod1 are going to be killed due to memory.oom.group set
python3[4242]: segfault at 0 ip 00007f1c2d3e4f50 sp 00007ffd1b2c3d40 error 4 in libc.so.6
traps: node[881] trap invalid opcode ip:5619 sp:7ffd error:0 in node
nvidia: loading out-of-tree module taints kernel.
NVRM: loading NVIDIA UNIX x86_64 Kernel Module  535.104.12
NVRM: Xid (PCI:0000:10:1c): 31, pid=4242, name=python3, Ch 00000008
nvidia-uvm: Loaded the UVM driver, major device number 510.
EFA 0000:00:06.0: Setup irq:35 name:efa-mgmnt@pci:0000:00:06.0
infiniband rdmap16s27: ibv_query: done
Lustre: Lustre: Build Version: 2.12.8
LNet: Added LNI 10.0.0.7@tcp [8/256/0/180]
drop_caches: 3
kubelet[1373]: I0112 housekeeping took longer than expected
containerd[901]: level=info msg="shim disconnected" id=7f
task kworker waits for more than it should
workqueue: max_active 1000 requested for kblockd is out of range, clamping between 1 and 512
The device is resetting its own counters on time, qid 4
Freezing with imperfect legacy cgroup freezer. See cgroup.freeze of cgroup v2
""".strip().splitlines()


@pytest.mark.parametrize(("text", "kind", "fields"), FORMATS, ids=[text[:60] for text, *_ in FORMATS])
def test_every_wording_of_every_format(text: str, kind: str, fields: dict[str, str]) -> None:
    found = recognise(text)
    assert found is not None and (found.kind, dict(found.fields)) == (kind, fields)


@pytest.mark.parametrize("before", ["[  467.626433] ", "kernel: [108533.515447] ", "Jul 12 15:12:04 host kernel: ", ""])
def test_what_a_log_puts_before_a_line_does_not_matter(before: str) -> None:
    for text, kind, fields in FORMATS:
        found = recognise(before + text)
        assert found is not None and (found.kind, dict(found.fields)) == (kind, fields), before + text


def test_every_format_has_a_line_here() -> None:
    """By the pattern itself: a format that no test reaches would rot."""
    for piece, formats in _formats():
        for one in formats:
            hits = [text for text, kind, _ in FORMATS if kind == one.kind and one.expression.search(text)]
            assert hits and all(piece in text for text in hits), one.pattern


def test_ordinary_lines_are_no_event() -> None:
    assert len(ORDINARY) > 120
    wrapped = [f"[{number:12.6f}] {line}" for number, line in enumerate(ORDINARY)]
    assert [line for line in (*ORDINARY, *wrapped) if recognise(line) is not None] == []


def test_lines_that_others_collected() -> None:
    try:
        lines = (DATA / "kmsg" / "sample_lines.txt").read_text().splitlines()
    except FileNotFoundError:
        pytest.skip(f"no lines at {DATA}: set ZOMBIESCOPE_EXTERNAL_DATA")
    found = [recognise(line) for line in lines]
    assert len(lines) >= 29 and None not in found
    kinds = [it.kind for it in found if it is not None]
    assert kinds.count("nic_tx_stuck") >= 13 and kinds.count("soft_lockup") == 2 and "unit_restart" in kinds
    for line, message in zip(lines, found, strict=True):
        assert message is not None
        if "ena 0000:00:05.0 e" in line:
            assert message.fields["driver"] == "ena" and message.fields["nic"] in ("eth0", "ens5"), line
        if "qid" in line or " queue" in line or " Q " in line or "TX q " in line:
            assert message.fields["queue"].isdecimal(), line


HOSTILE = [
    "",
    "\0",
    "\n" * 100,
    "\x1b[31m\x1b]0;evil\x07 TX q \udcff is paused for too long (threshold ",
    "ena 0000:00:05.0 " + "e" * 5000 + ": Trigger reset is on",
    "A" * 1_000_000,
    "TX timeout on queue: " * 50_000,
    "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=0" + ",0" * 900 + ",cpuset=" + ",task_memcg=" * 100,
    "oom-kill:constraint=CONSTRAINT_NONE,nodemask=(null),cpuset=,mems_allowed=0,global_oom,task_memcg=/"
    + ",task=,pid=1" * 150,
    "Killed process 1 (" * 110,
    "x" * 1_970 + ": Scheduled restart job",
    "x " * 980 + "hold-off time over, scheduling restart.",
    "INFO: task " * 170 + " for more than ",
    "NETDEV WATCHDOG: " * 110,
    "1" * 1_950 + " ticks this GP) idle=",
    "1-" * 950 + " GPs behind) idle=",
    "BUG: soft lockup - CPU#1 stuck for 1s! [" * 49,
    "workqueue: " * 150 + " hogged CPU for >",
    "TX q 1 is paused for too long (threshold " + "9" * 1_900 + "). usecs since napi 1. napi scheduled: 1",
]


@pytest.mark.parametrize("text", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_is_harmless_and_quick(text: str) -> None:
    recognise(text)
    started = time.thread_time()
    for _ in range(10):
        recognise(text)
    assert (time.thread_time() - started) / 10 < 0.02


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_torn_and_mixed_lines_never_raise(data: st.DataObject) -> None:
    """Pieces of real lines put together anew: the text that comes nearest to every pattern."""
    lines = st.sampled_from([text for text, *_ in FORMATS])
    text = ""
    for _ in range(data.draw(st.integers(1, 4))):
        line = data.draw(lines)
        text += line[data.draw(st.integers(0, len(line))) :] if text else line[: data.draw(st.integers(0, len(line)))]
        text += data.draw(st.text(max_size=20))
    found = recognise(text)
    assert found is None or all(isinstance(value, str) for value in found.fields.values())


def log(*texts: str, every: float = 0.01) -> Timeline:
    return node(read("kernel_log", "node", 4, at=place * every, text=text) for place, text in enumerate(texts))


DUMP = [f"{ENA}total_resets: 1", *(f"{ENA}queue_{queue}_tx_cnt: 4{queue}" for queue in range(300))]


def test_told_in_order_and_by_kind_and_worked_out_once() -> None:
    timeline = log("usb 1-1: new", f"{ENA}Trigger reset is on", "INFO: task a:1 blocked for more than 120 seconds.")
    assert [it.message.kind for it in lines_of(timeline)] == ["nic_reset", "hung_task"]
    (hung,) = lines_of(timeline, "hung_task", "oom_kill")
    assert hung.reading.text.startswith("INFO: task a:1") and hung is lines_of(timeline)[1]
    assert lines_of(Timeline()) == []


def test_the_counters_after_a_reset_are_one_and_only_there() -> None:
    timeline = log(*DUMP, f"{ENA}Trigger reset is on", *DUMP, "queue_0: 7", "eth9: total_resets: 3", "usb: x")
    kinds = [it.message.kind for it in lines_of(timeline)]
    assert kinds == ["nic_reset", "nic_counters"]
    fields = lines_of(timeline, "nic_counters")[0].message.fields
    assert len(fields) == 301 + len(OF_ENA)
    assert (fields["nic"], fields["total_resets"], fields["queue_299_tx_cnt"]) == ("eth0", "1", "4299")
    late = log(f"{ENA}Trigger reset is on", *DUMP[:3], every=11.0)
    assert [it.message.kind for it in lines_of(late)] == ["nic_reset"]


LOST = f"{ENA}[1/2] Lost TX completions are above threshold (1019 > 128), completion timeout: 5000 (msec), 21000 msecs "
LOST += "since interrupt, 21000 msecs since napi, qid: 5"


@pytest.mark.parametrize("second", ["[2/2] qid: 39, napi CPU: 5", "[2/2] qid: 5, napi CPU: 39"])
def test_swapped_or_not_the_first_line_says_which_is_the_queue(second: str) -> None:
    _, fields = (it.message.fields for it in lines_of(log(LOST, ENA + second)))
    assert (fields["queue"], fields["cpu"]) == ("5", "39")


def test_why_the_log_does_not_tell_everything() -> None:
    assert unheard(log("quiet")) is None
    nobody = unheard(Timeline())
    assert nobody is not None and nobody.why == "nothing looked for kernel_log"
    forbidden = unheard(node([], unseen={"kernel_log": "operation not permitted"}))
    assert forbidden is not None and forbidden.why == "operation not permitted"
