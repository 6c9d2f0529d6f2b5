"""Programs that are bound to a full NUMA node reclaim there, though another node has memory free."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, amount
from zombiescope.core.timeline import Timeline

WITHIN = 10.0  # seconds: both are states that last
FREE = "numa_memory_free_bytes"


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    free = [it for it in cause.evidence if it.what == FREE]
    if effect.subject == "node" and len(free) == 2 and cause.subject.startswith("numa:"):
        says = f"the node reclaims with {amount(free[1].value)} free on another NUMA node"
        yield Ground(kind="mechanism", says=says, evidence=(*free, effect.evidence[0]))
