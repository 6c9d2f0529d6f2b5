"""Control: nothing runs, and nothing may be accused."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._scenario import CPU_FAULTS, Fault, Truth

TRUTH = Truth(silent=CPU_FAULTS)
NEEDS: tuple[str, ...] = ()
SECONDS = 8.0
SHORT = True


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:  # noqa: ARG001 - nothing happens at any scale
    yield Fault(subject="node", says="nothing happens")
