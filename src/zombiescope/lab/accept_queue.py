"""A server with a short accept queue that never accepts, and a client that goes on connecting."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._scenario import CPU_CAUSES, Fault, Truth
from zombiescope.lab._stallers import staller
from zombiescope.lab._veth import cable

TRUTH = Truth(chain=("lost_packets",), subject=r"netns:\d+", silent=(*CPU_CAUSES, "table_full"))
NEEDS = ("root", "ip")
SECONDS = 10.0


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    each = max(1, round(50 * scale))
    with (
        cable(("zslab-srv", "zslab-cli"), "10.213.9") as (server, client),
        staller("unaccepting", server.address, within=server.inside),
        staller("connects", server.address, str(each), within=client.inside),
    ):
        says = f"the server at {server.address} never accepts; {each} connections a second are tried"
        yield Fault(subject=f"netns of {server.namespace}", says=says)
