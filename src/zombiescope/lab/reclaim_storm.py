"""Two readers in a cgroup of 16 MB need a gigabyte, page by page: each page they get must be freed first.

No disk takes part: the files are holes, so what is seen is reclaim and nothing else. No counter of the node shows it.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from zombiescope.lab._loads import limited, load, sparse_file, subject
from zombiescope.lab._scenario import PREFIX, Fault, Truth

TRUTH = Truth(
    root="direct_reclaim",
    subject=rf"cgroup:/{PREFIX}reclaim-\d+",
    chain=("direct_reclaim",),
    silent=("page_fault_storm", "irq_pile_up", "softirq_storm", "slab_bloat", "mount_explosion"),
)
NEEDS = ("root",)
SECONDS = 8.0
LIMIT, SIZE = 16 << 20, 1 << 30
READERS = 2


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    readers = max(READERS, round(READERS * scale))
    with ExitStack() as undo:
        folder = undo.enter_context(limited("reclaim", LIMIT))
        for number in range(readers):
            path = undo.enter_context(sparse_file(f"reclaim-{number}", SIZE))
            undo.enter_context(load("wander", path, str(number), cgroup=folder))
        yield Fault(subject=subject(folder), says=f"{readers} readers need far more than its {LIMIT >> 20} MB")
