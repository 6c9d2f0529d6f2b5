"""Control: a real compiler builds generated C files, two at a time, over and over."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._loads import compiling
from zombiescope.lab._scenario import CPU_FAULTS, Fault, Truth

TRUTH = Truth(silent=CPU_FAULTS)
NEEDS = ("gcc",)
SECONDS = 8.0


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    with compiling(scale) as files:
        yield Fault(subject="node", says=f"a compiler builds {files} C files over and over")
