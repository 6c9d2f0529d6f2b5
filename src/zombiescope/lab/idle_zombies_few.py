"""Control: fifty dying cgroups that do no harm, as any node has after a day."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._scenario import Fault, Truth
from zombiescope.lab._zombies import leaked

TRUTH = Truth(
    silent=(
        *("zombie_cgroups", "cgroup_churn", "slow_stat_read", "cgroup_walker", "saturated_core", "direct_reclaim"),
        *("slab_bloat", "mount_explosion"),
    )
)
NEEDS = ("root",)
SECONDS = 8.0
DEAD = 50


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    dead = max(1, round(DEAD * min(scale, 1.0)))
    with leaked(dead, label="few"):
        yield Fault(subject="node", says=f"{dead} dying cgroups, which do no harm")
