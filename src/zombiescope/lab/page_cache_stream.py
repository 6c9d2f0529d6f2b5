"""Control: a large file is read from start to end, and the page cache fills up, as it should."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._loads import load, sparse_file
from zombiescope.lab._scenario import Fault, Truth

TRUTH = Truth(
    silent=(
        *("direct_reclaim", "page_fault_storm", "slab_bloat", "mount_explosion", "irq_pile_up", "softirq_storm"),
        *("blocked_tasks", "cpu_throttling", "fork_storm", "zombie_cgroups", "oom_kill"),
    )
)
NEEDS: tuple[str, ...] = ()
SECONDS = 8.0
SIZE = 4 << 30  # bytes, sparse: no disk IO, and the cache is freed when the file is removed


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    with sparse_file("stream", round(SIZE * scale)) as path, load("stream", path) as pid:
        yield Fault(subject="node", says=f"process {pid} reads a file of {SIZE >> 30} GB over and over")
