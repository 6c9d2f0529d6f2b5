"""Say where to look and whom to ask about a root cause that no setting of the node ends.

A container that crashes, a program that forks, a host that steals time: the mistake is in what somebody runs, or below
the machine. What follows from another finding gets no advice here: it ends with that one.

Safe: nothing is changed.
Does not fix: anything by itself; it says what the owner of the program, the pod or the host has to change.
References: the page of each sign; kubernetes.io/docs/tasks/debug/debug-application/debug-pods; sysctl fs.mount-max,
    net.netfilter.nf_conntrack_max; networkd.conf(5).
"""

from __future__ import annotations

from zombiescope.core import Case, Finding, Plan, Step, harmless
from zombiescope.core.timeline import Timeline

_ADVICE = {
    "cgroup_churn": (
        "find why it ends: its log, its exit code; journalctl -u UNIT, or kubectl logs --previous POD",
        "until that is mended, let its supervisor wait longer before each start",
    ),
    "cgroup_walker": (
        "let it look less often, or switch off what it reads them for (cadvisor: --housekeeping_interval, "
        "--disable_metrics)",
    ),
    "conntrack_full": (
        "find who opens the connections: conntrack -L -o extended, sorted by source",
        "a larger table: sysctl net.netfilter.nf_conntrack_max, 300 bytes for each entry; or shorter timeouts",
    ),
    "crash_looping_container": (
        "find why it ends: kubectl logs --previous POD -c CONTAINER, and kubectl describe pod for probes and limits",
        "if nobody needs it: remove it, or scale its owner to 0; a restart is tried every 5 minutes for ever",
    ),
    "direct_reclaim": (
        "raise the memory limit of the cgroup that waits, or let it use less: its working set does not fit",
        "on the whole node: move work away, or raise vm.min_free_kbytes so that kswapd begins earlier",
    ),
    "fork_storm": ("let the program keep its helpers, or do in itself what it starts them for",),
    "lost_routing_rules": (
        "let the network manager keep what it does not know: ManageForeignRoutingPolicyRules=no in networkd.conf",
        "restart the agent of the CNI: it writes its rules anew",
    ),
    "mount_explosion": (
        "find who leaves them: findmnt --list --output TARGET,SOURCE; unmount what belongs to pods that are gone",
    ),
    "namespace_churn": ("let probes call a port instead of a command (exec), and let jobs share a sandbox",),
    "oom_kill": (
        "of a cgroup at its limit: raise the limit, or find what grows: memory.stat tells anonymous memory from files",
        "of the whole node: lower what is promised to pods (requests, limits), or move work away",
    ),
    "page_fault_storm": (
        "let it keep memory instead of giving it back (malloc: MALLOC_TRIM_THRESHOLD_, jemalloc: dirty_decay_ms)",
        "huge pages need fewer faults: madvise(MADV_HUGEPAGE) for the large parts",
    ),
    "slab_bloat": (
        "slabtop -o -s c shows which objects; negative dentries: find who asks for names that do not exist",
        "echo 2 > /proc/sys/vm/drop_caches frees what can be freed, once; what stays is held or leaked",
    ),
    "softirq_storm": ("spread the packets over more cores: ethtool -L (queues), RPS, irqbalance; find who sends them",),
    "stolen_cpu": (
        "ask the operator of the host: it is overcommitted, or this machine has used up its CPU credits",
        "until then drain the node, or move to an instance type with cores of its own",
    ),
}
CURES = tuple(_ADVICE)


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan | None:
    if finding in case.set_aside or any(link.effect == finding for link in case.links):
        return None
    steps = (harmless(finding.says), *_ADVICE[finding.sign])
    return Plan(cures=finding, risk="safe", proof=(finding.sign,), steps=tuple(Step(says=it) for it in steps))
