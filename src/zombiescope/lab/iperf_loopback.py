"""Control: two TCP streams over the loopback at full speed: much network work, no fault."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from zombiescope.lab._loads import load
from zombiescope.lab._scenario import Fault, Truth

TRUTH = Truth(
    silent=(
        *("irq_pile_up", "softirq_storm", "direct_reclaim", "page_fault_storm", "starved_softirq", "driver_reset"),
        *("cpu_throttling", "fork_storm", "realtime_hog", "conntrack_full"),
    )
)
NEEDS: tuple[str, ...] = ()
SECONDS = 8.0


@contextmanager
def run(scale: float = 1.0) -> Iterator[Fault]:
    streams = max(1, round(2 * scale))
    with load("loopback", str(streams)):
        yield Fault(subject="node", says=f"{streams} TCP streams run over the loopback")
