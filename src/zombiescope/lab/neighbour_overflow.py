"""More neighbours are asked for in one network namespace than the node's neighbour table may hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._packets import packet_user
from zombiescope.lab._scenario import CPU_CAUSES, Fault, Truth
from zombiescope.lab._veth import cable, ip

TRUTH = Truth(chain=("table_full",), subject="table:IPv4 neighbours", silent=(*CPU_CAUSES, "lost_packets"))
NEEDS = ("root", "ip")
SECONDS = 10.0
_LIMIT = "/proc/sys/net/ipv4/neigh/default/gc_thresh3"
MORE = 1.5  # times the limit


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    with open(_LIMIT) as file:
        many = min(round(int(file.read()) * MORE * max(scale, 1.0)), 50_000)
    with cable(("zslab-na", "zslab-nb"), "10.214.0") as (one, _):
        ip("-n", one.namespace, "address", "add", "10.214.0.1/16", "dev", one.nic)
        with packet_user("asks", "10.214", str(many), within=one.inside) as pid:
            yield Fault(subject="table:IPv4 neighbours", says=f"process {pid} asks for {many:,} neighbours")
