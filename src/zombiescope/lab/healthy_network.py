"""Control: two hundred firewall rules, a UDP server that keeps up, and half as many neighbours as there may be."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.lab._packets import packet_user
from zombiescope.lab._scenario import CPU_FAULTS, KERNEL_CAUSES, Fault, Truth
from zombiescope.lab._veth import cable, ip, with_rules

TRUTH = Truth(silent=(*CPU_FAULTS, *KERNEL_CAUSES, "rule_walk", "lost_packets", "table_full", "long_softirq"))
NEEDS = ("root", "ip", "iptables")
SECONDS = 8.0
RULES, SENT, NEIGHBOURS = 200, 2_500, 500


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    with ExitStack() as undo:
        sender, receiver = undo.enter_context(cable(("zslab-ha", "zslab-hb"), "10.215.0"))
        ip("-n", sender.namespace, "address", "add", "10.215.0.1/16", "dev", sender.nic)
        with_rules(receiver, RULES)
        undo.enter_context(packet_user("receives", receiver.address, "4000000", "1000000", within=receiver.inside))
        undo.enter_context(packet_user("sends", receiver.address, str(round(SENT * scale)), within=sender.inside))
        undo.enter_context(packet_user("asks", "10.215", str(NEIGHBOURS), within=sender.inside))
        says = f"{SENT:,} packets a second pass {RULES} rules, and {NEIGHBOURS} neighbours are asked for"
        yield Fault(subject="node", says=says)
