"""Control: tens of thousands of files are removed by `rm -rf`, over and over: the kernel is busy, nobody waits."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._innocents import innocent, own_folder
from zombiescope.lab._scenario import CPU_FAULTS, KERNEL_CAUSES, Fault, Truth

TRUTH = Truth(silent=(*CPU_FAULTS, *KERNEL_CAUSES, "zombie_cgroups", "cgroup_walker"))
NEEDS: tuple[str, ...] = ()
SECONDS = 8.0
FILES = 30_000


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    files = max(1, round(FILES * min(scale, 4.0)))
    with own_folder("remove") as folder, innocent("remove", folder, str(files)) as pid:
        yield Fault(subject="node", says=f"process {pid} makes and removes {files:,} files over and over")
