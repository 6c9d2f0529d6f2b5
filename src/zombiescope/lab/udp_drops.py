"""A server reads its UDP socket too slowly for what comes: the buffer is full and the kernel drops the rest."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._packets import packet_user
from zombiescope.lab._scenario import CPU_CAUSES, Fault, Truth
from zombiescope.lab._veth import cable

TRUTH = Truth(chain=("lost_packets",), subject=r"netns:\d+", silent=(*CPU_CAUSES, "table_full", "irq_pile_up"))
NEEDS = ("root", "ip")
SECONDS = 8.0
SENT, READ = 2_000, 500  # packets a second
BUFFER = 8_192  # bytes


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    sent = round(SENT * max(scale, 0.5))
    with (
        cable(("zslab-us", "zslab-ur"), "10.213.11") as (sender, receiver),
        packet_user("receives", receiver.address, str(BUFFER), str(READ), within=receiver.inside) as server,
        packet_user("sends", receiver.address, str(sent), within=sender.inside),
    ):
        says = f"process {server} reads {READ} of {sent} packets a second"
        yield Fault(subject=f"netns of {receiver.namespace}", says=says)
