"""Twenty thousand firewall rules are tried for each packet, on the core of a job."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.lab._loads import load
from zombiescope.lab._packets import packet_user
from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._veth import cable, with_rules

TRUTH = Truth(
    chain=("rule_walk",),
    subject="node",
    silent=("cpu_throttling", "realtime_hog", "fork_storm", "blocked_tasks", "irq_pile_up", "hook_tax"),
)
NEEDS = ("root", "ip", "iptables")
SECONDS = 8.0
RULES = 20_000
SENT = 2_500  # packets a second: about half a core of trying
JOB = 0.6  # of the core that the packets are taken in on


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    core, rules = max(os.sched_getaffinity(0)), round(RULES * min(max(scale, 0.01), 4.0))
    with ExitStack() as undo:
        sender, receiver = undo.enter_context(cable(("zslab-ra", "zslab-rb"), "10.213.12"))
        with_rules(receiver, rules)
        undo.enter_context(packet_user("receives", receiver.address, "200000", "100000", within=receiver.inside))
        job = undo.enter_context(load("job", str(JOB), within=("taskset", "--cpu-list", str(core))))
        undo.enter_context(packet_user("sends", receiver.address, str(SENT), str(core), within=sender.inside))
        yield Fault(subject="node", says=f"each packet passes {rules:,} rules, and process {job} waits for its core")
