"""Say what to change in the program, the mount or the setting that the others wait for.

Whether a hook, a metric, a firewall rule or a weight may go is for its owner to decide: nothing on the node
says what it is good for. So this is advice, with the name of who has to be asked.

Safe: nothing is changed.
Does not fix: a culprit that nobody can be asked about; stopping it takes along what it was good for.
References: the page of each sign; systemd.resource-control(5), CPUWeight=; sysctl kernel.numa_balancing.
"""

from __future__ import annotations

from zombiescope.core import Case, Finding, Plan, Step, harmless
from zombiescope.core.timeline import Timeline

_ADVICE = {
    "busy_init": (
        "find what makes it work: mounts that come and go (findmnt --poll), units that restart, reloads in a loop",
        "unmount what is left over; a systemd of 249 or later reads the table of mounts less often",
    ),
    "cache_dropper": (
        "take the write to drop_caches out of the job that does it",
        "the kernel frees page cache by itself as soon as the memory is wanted",
    ),
    "compaction_stall": (
        "write madvise or defer to /sys/kernel/mm/transparent_hugepage/defrag, so that a fault does not compact",
        "let kcompactd work ahead: vm.compaction_proactiveness, vm.min_free_kbytes",
    ),
    "console_flood": (
        "print less to the console: dmesg -n 4, or loglevel=4 at boot; the log itself keeps every line",
        "fix what logs, or switch off its messages; a faster line: console=ttyS0,115200",
    ),
    "cpu_clocked_down": (
        "heat: check fans, air and load of the rack; a power limit: turbostat and the BMC show which one holds",
        "a setting: cpupower frequency-info shows governor and limits; until it is mended, drain the node",
    ),
    "dead_mount": (
        "bring its server or daemon back: those who wait go on by themselves",
        "if it is gone for good: umount --force, then umount --lazy; for FUSE write 1 to its abort file below "
        "/sys/fs/fuse/connections",
    ),
    "hook_tax": (
        "narrow its rules or filters to what is needed, or stop it for ten minutes and compare",
        "put the calls that it does not need first in a seccomp filter, and drop audit rules without a key",
    ),
    "kernel_lock": ("fewer at a time: let one do it after the other, or leave longer pauses between them",),
    "long_softirq": (
        "IPVS: a kernel of 6.2 or later, or net.ipv4.vs.run_estimation=0; a receive queue: smaller tcp_rmem",
        "keep-alive timers: longer or differing TCP_KEEPIDLE, so that they do not expire together",
    ),
    "numa_lopsided": (
        "spread what is bound to the full node, or give it memory of the other (cpuset.mems, numactl --preferred)",
        "for automatic balancing: bind the program yourself and write 0 to /proc/sys/kernel/numa_balancing",
    ),
    "pipe_full": ("restart or fix the one that does not read; a log driver in non-blocking mode drops lines instead",),
    "proc_walker": ("let it look less often, or switch off the metric that needs it (cadvisor: referenced_memory)",),
    "rule_walk": (
        "count the rules and look for duplicates at a quiet time: iptables-save | sort | uniq -d",
        "let sets (ipset, nft sets) or IPVS replace one rule for each address",
    ),
    "slow_clock": (
        "if the fast clock was given up by mistake: write its name to "
        "/sys/devices/system/clocksource/clocksource0/current_clocksource, and boot with tsc=reliable",
        "if the host steals time or cores lock up: mend that first, or the clock is given up again",
    ),
    "slow_fork": (
        "start helpers with posix_spawn or vfork, from a small process, or not at all: read the files yourself",
        "huge pages make page tables small: transparent_hugepage=madvise with MADV_HUGEPAGE for the large parts",
    ),
    "stopped_tasks": (
        "kill -CONT PID lets it go on; ask first who stopped it: a debugger, a job control, a checkpoint",
    ),
    "sync_storm": (
        "let the writer write less at a time (dirty_bytes, io.max), or give it a disk of its own",
        "move logs that are synced away from the disk that others fill",
    ),
    "unaccounted_memory": (
        "look for what takes pages itself: packet captures (ss -0), graphics and network drivers, ZFS, a balloon",
        "stop what is suspected and look again: what it held comes back; what a driver leaked stays until a reboot",
    ),
    "unfair_weight": ("set CPUWeight= (cpu.weight, cpu.shares) of the two within a factor of ten of each other",),
    "vm_paused": (
        "ask the operator of the host: a snapshot, a migration or an overcommitted host pauses the machine",
        "lockups and resets at that moment are its effect: do not look for them in the guest",
    ),
}
CURES = tuple(_ADVICE)


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan:
    steps = (harmless(finding.says), *_ADVICE[finding.sign])
    return Plan(cures=finding, risk="safe", proof=(finding.sign,), steps=tuple(Step(says=it) for it in steps))
