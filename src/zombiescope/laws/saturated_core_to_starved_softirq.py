"""A core's softirqs can run only on that core, so while other kernel work fills it they wait."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, percent
from zombiescope.core.model import Span
from zombiescope.core.timeline import Timeline
from zombiescope.derived.softirq_times import seen_waiting

WITHIN = 2.0  # seconds: the wait ends when the core is free
TWICE = 2.0  # times the waiting before: less, and it waits whatever the core does


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    if cause.subject != effect.subject or _full_of_softirqs(cause):
        return  # a core full of softirqs does not starve them
    system = next((it for it in cause.evidence if it.what == "cpu_kernel_ratio"), cause.evidence[0])
    yield Ground(
        kind="place",
        says=f"{effect.subject.replace(':', ' ')} was {percent(system.value)} busy in the kernel",
        evidence=(system,),
    )
    yield from seen_waiting(cause, effect, timeline)
    for reading in effect.evidence:
        if reading.what != "thread_run_delay_ratio":
            continue
        delay = timeline.rate("thread_run_delay_seconds_total", reading.subject)
        during = delay.between(cause.span).mean()
        before = delay.between(Span(timeline.span.start, cause.span.start)).mean() if len(delay) else 0.0
        if during >= TWICE * before and cause.span.start - timeline.span.start > 2:
            yield Ground(
                kind="dose",
                says=f"{reading.subject[7:]} waited {during:.2f} s of each second then, {before:.2f} s before",
                evidence=(reading, system),
            )


def _full_of_softirqs(core: Finding) -> bool:
    """Whether the core spent more time in softirqs and interrupts than in system calls."""
    share = {it.what: it.value for it in core.evidence}
    return share.get("cpu_softirq_ratio", 0.0) + share.get("cpu_irq_ratio", 0.0) > share.get("cpu_system_ratio", 0.0)
