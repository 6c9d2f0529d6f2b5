"""A capture takes one packet ring after the other: memory that is in use and in no line of /proc/meminfo."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.core import Host, UserError, amount
from zombiescope.lab._packet_rings import packet_rings
from zombiescope.lab._scenario import CPU_FAULTS, Fault, Truth
from zombiescope.probes.meminfo import SOURCE, parse

TRUTH = Truth(chain=("unaccounted_memory",), noted=True, subject="node", silent=(*CPU_FAULTS, "slab_bloat"))
NEEDS = ("root", "unshare")
SECONDS = 20.0
EACH = 0.0004  # of all memory, forty times a second: to clear it takes a tenth of a core
MOST = 0.1  # of all memory: the node stays far from needing it
ROOM = 3  # times as much must be available


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    found = parse(Host().read(SOURCE))
    each, most = (round(share * found["MemTotal"][0] * max(scale, 0.1)) for share in (EACH, MOST))
    if found.get("MemAvailable", (0, ""))[0] < ROOM * most:
        raise UserError(f"not enough memory is available: {amount(ROOM * most)} are wanted, to be far from the end")
    with packet_rings("rings", str(each), str(most)) as pid:
        yield Fault(subject="node", says=f"process {pid} takes {amount(most)} for packet rings, one after the other")
