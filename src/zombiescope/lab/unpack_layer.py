"""Control: an image layer of thousands of small files is unpacked and removed over and over, as when a node pulls."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._innocents import FILES, innocent, layer, own_folder
from zombiescope.lab._scenario import CPU_FAULTS, KERNEL_CAUSES, Fault, Truth

TRUTH = Truth(silent=(*CPU_FAULTS, *KERNEL_CAUSES, "zombie_cgroups", "cgroup_walker"))
NEEDS: tuple[str, ...] = ()
SECONDS = 8.0


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    files = max(1, round(FILES * min(scale, 10.0)))
    with own_folder("unpack") as folder, innocent("unpack", folder, layer(folder, files)) as pid:
        yield Fault(subject="node", says=f"process {pid} unpacks a layer of {files:,} files over and over")
