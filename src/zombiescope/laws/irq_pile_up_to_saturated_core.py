"""One core that gets all interrupts and packets does all their work, so it is the one that saturates."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, percent
from zombiescope.core.timeline import Timeline

WITHIN = 1.0  # seconds: the core is busy while they come
MOSTLY = 0.5  # of the core's kernel time in interrupts and softirqs: less, and system calls fill it


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    figures = {it.what: it for it in effect.evidence}
    kernel = figures.get("cpu_kernel_ratio")
    work = [it for what in ("cpu_softirq_ratio", "cpu_irq_ratio") if (it := figures.get(what)) is not None]
    share = sum(it.value for it in work)
    if cause.subject == effect.subject and kernel is not None and share >= MOSTLY * kernel.value > 0:
        yield Ground(
            kind="place",
            says=f"{effect.subject.replace(':', ' ')} spent {percent(share)} in interrupts and softirqs",
            evidence=(cause.evidence[0], *work),
        )
