"""Run in a network namespace: the plan for its card is applied, applied again and undone; what is seen, as JSON."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import struct
import sys
from array import array
from typing import Any

from tests.nodes import node, read
from tests.remedies.planned import plans, to_nobody
from tests.signs.test_starved_softirq import thread

from zombiescope.core import Host, Unreadable
from zombiescope.treatment.apply import Machine, apply, undo
from zombiescope.treatment.ledger import Ledger
from zombiescope.treatment.napi_command import main as raise_only
from zombiescope.treatment.napi_command import threads

SIOCETHTOOL, ETHTOOL_SGRO = 0x8946, 0x2C  # include/uapi/linux/sockios.h, ethtool.h
POLICIES = {os.SCHED_FIFO: "SCHED_FIFO", os.SCHED_OTHER: "SCHED_OTHER"}
CANNOT = 77


def merge_packets(nic: str, on: bool) -> None:
    """A veth polls its packets by NAPI only while these are merged (generic receive offload)."""
    request = array("B", struct.pack("II", ETHTOOL_SGRO, on))
    with socket.socket() as asked:
        fcntl.ioctl(asked, SIOCETHTOOL, struct.pack("16sP16x", nic.encode(), request.buffer_info()[0]))


def seen(nic: str) -> dict[str, Any]:
    now = [[POLICIES[os.sched_getscheduler(pid)], os.sched_getparam(pid).sched_priority] for pid in threads(nic)]
    with open(f"/sys/class/net/{nic}/threaded") as switch:
        return {"threaded": switch.read(), "threads": now}


def main(nic: str, folder: str) -> int:
    try:
        threads(nic)
        merge_packets(nic, True)
    except (OSError, Unreadable) as error:
        print(error, file=sys.stderr)
        return CANNOT
    card = [read("nic_tx_timeouts_total", f"nic:{nic}", 0, 0.0), read("nic_irq_cpu", "irq:9", 1, 0.0, f"{nic}-0")]
    timeline = node([*thread("ksoftirqd/1", [0.9] * 10, [0.0] * 10), *card])
    (plan,) = plans(timeline, "raise_napi_priority", "starved_softirq")
    machine, ledger = Machine(Host(), Host()), Ledger(folder)
    found = {"before": seen(nic)}
    # What is done where threads of its name were seen, which another card may have.
    found["named alike"] = {"exit": raise_only(["raise", nic, "60"]), **seen(nic)}
    fixes = []
    for when in ("applied", "again"):
        fixes.append(apply(plan, machine, ledger, to_nobody, disruptive=True))
        found[when] = seen(nic)
    for fix in reversed(fixes):
        undo(fix.id, machine, ledger, to_nobody)
    found["undone"] = seen(nic)
    merge_packets(nic, False)
    try:
        apply(plan, machine, ledger, to_nobody, disruptive=True)
        failed = False
    except Unreadable:
        failed = True
    found["without NAPI"] = {"failed": failed, **seen(nic)}
    json.dump(found, sys.stdout)
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
