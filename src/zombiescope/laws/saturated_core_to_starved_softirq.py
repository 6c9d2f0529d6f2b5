"""What a core's softirqs wait for is the core, so while the kernel's own work fills it they do not get their turn."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.model import Span
from zombiescope.core.timeline import Timeline

WITHIN = 2.0  # seconds: the wait ends when the core is free
TWICE = 2.0  # times the waiting of the rest of the recording: less, and it waits whatever the core does


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    if cause.subject != effect.subject or "drowning in softirq" in cause.says:
        return  # a core full of softirqs does not starve them
    system = next((it for it in cause.evidence if it.what == "cpu_kernel_ratio"), cause.evidence[0])
    yield Ground(
        kind="place", says=f"the same core: {effect.subject} was {system.value:.0%} in the kernel", evidence=(system,)
    )
    for reading in effect.evidence:
        if reading.what != "thread_run_delay_ratio":
            continue
        delay = timeline.rate("thread_run_delay_seconds_total", reading.subject)
        during = delay.between(cause.span).mean()
        before = delay.between(Span(timeline.span.start, cause.span.start)).mean() if len(delay) else 0.0
        if during >= TWICE * before and cause.span.start - timeline.span.start > 2:
            yield Ground(
                kind="dose",
                says=f"{reading.subject[7:]} waited {during:.2f} s of each second then, {before:.2f} before",
                evidence=(reading, system),
            )
