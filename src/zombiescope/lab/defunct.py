"""A parent with seventy zombie children that it never reaps, and ten more every second."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._scenario import CPU_CAUSES, PREFIX, Fault, Truth
from zombiescope.lab._starvers import starver

TRUTH = Truth(chain=("defunct_processes",), subject=rf"process:{PREFIX}neglect\[\d+\]", silent=CPU_CAUSES)
NEEDS: tuple[str, ...] = ()
SECONDS = 8.0
CHILDREN = 70


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    children = max(1, round(CHILDREN * scale))
    with starver("neglect", str(children)) as pid:
        yield Fault(
            subject=f"process:{PREFIX}neglect[{pid}]",
            says=f"process {pid} has {children} zombie children that it does not reap, and makes ten more a second",
        )
