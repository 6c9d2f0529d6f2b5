"""How much of a span tasks waited for I/O or interrupts, by the kernel's own pressure (PSI), as evidence."""

from __future__ import annotations

from zombiescope.core.model import Reading, Span
from zombiescope.core.timeline import Timeline


def pressure(timeline: Timeline, what: str, span: Span) -> tuple[Reading, ...]:
    """`what` is "io_waiting", "irq_stalled", …; nothing where it was not read, or nobody waited."""
    rate = timeline.rate(f"pressure_{what}_seconds_total", within=span)
    mean = rate.mean() if len(rate) else 0.0
    return (rate.figure(f"pressure_{what}_ratio", mean),) if mean > 0 else ()
