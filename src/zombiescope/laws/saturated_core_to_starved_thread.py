"""Kernel work on a core does not give way to programs, so a thread that is bound to that core waits for it to end."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, percent
from zombiescope.core.timeline import Timeline
from zombiescope.derived.softirq_times import most_run

WITHIN = 2.0  # seconds: the waiting thread runs as soon as the core is free
MOSTLY = 0.5  # of the core's time in one kind of softirq, which no thread can preempt: more than all threads there get


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    """A thread that can run elsewhere is moved there within milliseconds: it does not wait for this core."""
    core = cause.subject.removeprefix("cpu:")
    allowed = timeline.series("process_cpus_allowed", effect.subject).between(effect.span)
    full = next((it for it in cause.evidence if it.what == "cpu_kernel_ratio"), None)
    if full is not None and len(allowed) and allowed.latest.value == 1 and allowed.latest.text.strip() == core:
        says = f"it can run only on cpu {core}, which was {percent(full.value)} busy in the kernel"
        yield Ground(kind="place", says=says, evidence=(allowed.latest, full))
        ran = most_run(timeline, cause.subject, effect.span)
        if ran is not None and ran.share >= MOSTLY:
            yield Ground(kind="mechanism", says=f"timed by eBPF: {ran.ran}", evidence=(ran.longest,))
