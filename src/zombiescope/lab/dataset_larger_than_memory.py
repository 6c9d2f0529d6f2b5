"""Control: a dataloader in a container streams a dataset larger than its memory limit; old pages are simply dropped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._loads import limited, load, sparse_file
from zombiescope.lab._scenario import Fault, Truth

TRUTH = Truth(
    silent=(
        *("direct_reclaim", "page_fault_storm", "slab_bloat", "mount_explosion", "irq_pile_up", "softirq_storm"),
        *("blocked_tasks", "cpu_throttling", "fork_storm", "zombie_cgroups", "oom_kill"),
    )
)
NEEDS = ("root",)
SECONDS = 8.0
LIMIT, SIZE = 256 << 20, 2 << 30  # bytes; the file is sparse: no disk IO


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    with (
        limited("dataset", LIMIT) as folder,
        sparse_file("dataset", round(SIZE * max(scale, 0.2))) as path,
        load("stream", path, cgroup=folder) as pid,
    ):
        yield Fault(subject="node", says=f"process {pid} streams a file larger than its limit of {LIMIT >> 20} MB")
