"""Control: an exporter reads sysfs all the time, through functions that a walk through cgroups shows too."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._innocents import innocent
from zombiescope.lab._scenario import CPU_FAULTS, Fault, Truth

TRUTH = Truth(silent=(*CPU_FAULTS, "cgroup_walker", "slow_stat_read", "zombie_cgroups"))
NEEDS: tuple[str, ...] = ()
SECONDS = 8.0


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:  # noqa: ARG001 - one reader that never pauses
    with innocent("export") as pid:
        yield Fault(subject="node", says=f"process {pid} reads sysfs over and over")
