"""`agent --check`: which capabilities this process has, and what would be blind here, by a short look of its own."""

from __future__ import annotations

from zombiescope.cli._looking import look
from zombiescope.core import Host, harmless
from zombiescope.kernel.rights import own_rights
from zombiescope.outputs._exit_codes import BLIND, CLEAR

SECONDS = 2.0  # of the look: a rate needs two samples
# Bit in /proc/PID/status, name, and what is not seen without it. Measured: docs/agent.md says how.
CAPABILITIES = (
    (2, "CAP_DAC_READ_SEARCH", "files of other users: slabinfo, tracefs, pod logs, containers"),
    (12, "CAP_NET_ADMIN", "counters of some network drivers"),
    (19, "CAP_SYS_PTRACE", "what processes of other users wait for; names of their functions"),
    (21, "CAP_SYS_ADMIN", "stacks on kernels before 5.8; mounts and names in other namespaces; names of dying cgroups"),
    (23, "CAP_SYS_NICE", "an ordinary turn for the examiner on a node that has no idle time"),
    (34, "CAP_SYSLOG", "the kernel's log; names of kernel functions"),
    (38, "CAP_PERFMON", "stacks (kernel 5.8 or newer; else CAP_SYS_ADMIN)"),
    (39, "CAP_BPF", "names of dying cgroups (kernel 5.8 or newer; else CAP_SYS_ADMIN)"),
)


def report(host: Host) -> int:
    """Prints both lists. The look decides: what a capability is for may be allowed by other means."""
    from zombiescope.diagnosis.examine import examine

    rights = own_rights()
    for bit, name, use in CAPABILITIES:
        print(f"{'has ' if rights.has(bit) else 'LACKS'}\t{name}\t{use}")
    if rights.filtered:
        print("note\ta seccomp filter may forbid calls all the same")
    case = examine(look(host, SECONDS, hz=49))
    unseen = [it for it in case.verdicts if it.state in ("blind", "broken")]
    for verdict in unseen:
        print(f"{verdict.state}\t{verdict.sign}\t{harmless(verdict.says)}")
    print(f"{len(case.verdicts) - len(unseen)} of {len(case.verdicts)} signs can look here")
    return BLIND if unseen else CLEAR
