"""Softirqs run on the core that raised them and before anything else there, so a storm of them fills that core."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, percent
from zombiescope.core.timeline import Timeline
from zombiescope.derived.softirq_times import most_run

WITHIN = 1.0  # seconds: the core is busy while the storm goes on
MOSTLY = 0.5  # of the core's kernel time in softirqs: less, and system calls fill it


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    if cause.subject != effect.subject:
        return
    figures = {it.what: it for it in effect.evidence}
    kernel, softirq = figures.get("cpu_kernel_ratio"), figures.get("cpu_softirq_ratio")
    if kernel is None or softirq is None or kernel.value <= 0 or softirq.value < MOSTLY * kernel.value:
        return
    yield Ground(kind="place", says=f"both on {effect.subject.replace(':', ' ')}", evidence=(cause.evidence[0], kernel))
    yield Ground(
        kind="dose",
        says=f"softirqs are {percent(softirq.value / kernel.value)} of its {percent(kernel.value)} in the kernel",
        evidence=(softirq, kernel),
    )
    ran = most_run(timeline, effect.subject, effect.span)
    if ran is not None and ran.share >= MOSTLY * kernel.value:
        yield Ground(kind="mechanism", says=f"timed by eBPF: {ran.ran}", evidence=(ran.longest, kernel))
