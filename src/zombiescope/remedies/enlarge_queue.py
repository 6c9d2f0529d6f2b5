"""Say which queue or buffer overflows, what makes it larger, and what empties it faster.

A queue overflows because its reader is slower than its writer. A larger one helps against bursts; against a reader
that is too slow for good only a faster one helps. Most of these belong to a program or to the cloud, so this is
advice.

Safe: nothing is changed.
Does not fix: a program that does not read, or a limit of the instance: ask for a larger type.
References: Documentation/networking/ip-sysctl.rst; listen(2); the cloud's documentation of its allowances.
"""

from __future__ import annotations

from zombiescope.core import Case, Finding, Plan, Step, harmless
from zombiescope.core.timeline import Timeline

CURES = ("lost_packets",)
_WORDS = {
    "net_accepts_refused_total": "raise the listen backlog and net.core.somaxconn there, or accept faster",
    "net_udp_dropped_total": "raise SO_RCVBUF of the program (net.core.rmem_max allows it), or read faster",
    "net_tcp_dropped_total": "the program reads too slowly for what it is sent: find out what it waits for",
    "net_tcp_pruned_total": "net.ipv4.tcp_rmem is small for these connections, or the program does not read",
    "net_tcp_pressures_total": "raise net.ipv4.tcp_mem, after finding out which program leaves its sockets unread",
    "net_sends_refused_total": "a kernel in which tcp_fragment's limit is fixed, or a smaller SO_SNDBUF",
    "net_bad_checksums_total": "switch the tunnel's checksum offload off: ethtool -K NIC tx off; a newer kernel",
    "conntrack_insert_failed_total": "a DNS cache on the node, or single-request-reopen in resolv.conf",
    "softnet_dropped_total": "spread receive queues over more cores (RSS, RPS), or raise net.core.netdev_max_backlog",
    "nic_allowance_exceeded_total": "the instance is at its limit: fewer packets, or a larger type",
}


def plan(finding: Finding, case: Case, timeline: Timeline) -> Plan:
    ways = dict.fromkeys(_WORDS[it.what] for it in finding.evidence if it.what in _WORDS)
    steps = (Step(says=harmless(finding.says)), *(Step(says=words) for words in ways))
    return Plan(cures=finding, risk="safe", proof=CURES, steps=steps)
