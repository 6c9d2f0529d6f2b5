"""A fault is kernel work on the core that touched the page, so enough of them fill that core."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.core_work import fills_core, sampled_on

WITHIN = 1.0  # seconds: the work is done where and when the page is touched
MOSTLY = 0.5  # of what that core did, or of the node's kernel time: less, and something else fills it
DEAREST = 17e-6  # seconds of kernel time for each fault: 0.5 µs on hardware, up to 8 µs in a nested virtual machine


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    if len(sampled_on(effect, timeline)):  # stacks were sampled: they know better than the totals
        words, called = "page faults are", "fault_sampled_seconds"
        yield from fills_core(effect, timeline, "page_fault", least=MOSTLY, words=words, called=called)
    else:
        yield from _dose(effect, timeline)


def _dose(effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    """Without stacks: the core has most of the node's kernel time, and there are enough faults to explain it."""
    what = "cpu_system_seconds_total"
    by_core = {cpu: timeline.rate(what, cpu, within=effect.span).mean() for cpu in timeline.subjects(what, "cpu")}
    rate = timeline.rate("vmstat_pgfault_total").between(effect.span)
    own, often = by_core.get(effect.subject, 0.0), rate.mean() if len(rate) else 0.0
    if often > 0 and own >= MOSTLY * sum(by_core.values()) and own / often <= DEAREST:
        yield Ground(
            kind="dose",
            says=f"{often:,.0f} faults a second and {own:.2f} s of each in the kernel: {own / often * 1e6:.1f} µs each",
            evidence=(rate.latest, effect.evidence[0]),
        )
