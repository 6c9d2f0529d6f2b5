"""One core spends most of its time in softirqs for seconds: packets, timers or callbacks leave it no time for others.

Why it hurts: softirqs run before every program. Programs on that core get what is left, and other softirqs there
    wait for their turn.
False alarms: TCP over loopback at full speed costs a third of a core in softirqs; a gateway or a node of a content
    network may spend half of one on purpose. Less counts only where ksoftirqd has work at all times, so that softirqs
    never catch up beside others on that core. Interrupts on a core that is otherwise idle are not all counted where the
    kernel counts time by ticks (no CONFIG_IRQ_TIME_ACCOUNTING): a storm there may be worse than reported.
References: Documentation/filesystems/proc.rst, 1.7 (softirq); `mpstat -P ALL 1`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from zombiescope.cgroups.owners import whose
from zombiescope.core import Finding, Reading, Span, lasting, percent
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.culprits import sampled_culprit
from zombiescope.derived.packet_work import packet_work_harm
from zombiescope.derived.pressure import pressure
from zombiescope.derived.softirq_backlog import waited, wanted
from zombiescope.derived.softirq_times import most_run
from zombiescope.knowledge.functions import shows, softirq_kind

# Scale: a share of one core: the same on any node.
NEEDS = ("cpu_softirq_seconds_total",)
HEAVY = 0.6  # of a core: loopback TCP takes at most 0.34, a busy gateway about half
SECONDS = 3.0  # shorter bursts are ordinary; a network driver gives up after 5
BRIDGE = 0.6  # seconds: ticks are coarse, two samples below HEAVY do not split a storm in two
SHOWN = 3  # kinds named with their counts
_COUNTED = ("hi", "timer", "net_tx", "net_rx", "block", "irq_poll", "tasklet", "sched", "hrtimer", "rcu")


def find(timeline: Timeline) -> Iterator[Finding]:
    for cpu in timeline.subjects(NEEDS[0], "cpu"):
        work = timeline.rate(NEEDS[0], cpu)
        for spell in wanted(timeline, work, SECONDS).runs(above=HEAVY, lasting=SECONDS, bridging=BRIDGE):
            storm = work.between(spell.span)
            waits, waiting = waited(timeline, cpu, storm.span)
            words, evidence = _kinds(timeline, cpu, storm.span)
            length = lasting(storm.span.seconds)
            if ran := most_run(timeline, cpu, storm.span):
                words, evidence = f"{words}; timed by eBPF: {ran.ran}", (*evidence, ran.longest)
            number = int(cpu.removeprefix("cpu:"))
            culprit = sampled_culprit(timeline, storm.span, _own, cpu=number, among=_softirq)
            named = f"; caused by {whose(timeline, culprit.process, culprit.cgroup)}" if culprit else ""
            yield Finding(
                subject=cpu,
                span=storm.span,
                says=f"spent {percent(storm.mean())} of its time in softirqs for {length}{waits}: {words}{named}",
                evidence=(
                    _share(storm),
                    *evidence,
                    *waiting,
                    *(culprit.evidence if culprit else ()),
                    *pressure(timeline, "irq_stalled", storm.span),
                ),
                harm=packet_work_harm(timeline, storm),
                culprit=culprit.subject if culprit else "",
            )


def _softirq(frames: Sequence[str]) -> bool:
    return bool(softirq_kind(frames))


def _own(frames: Sequence[str]) -> bool:
    """A softirq that a program's own call raised and ran (it sends to this node); others interrupt what runs."""
    return _softirq(frames) and shows(frames, "softirq_of_caller")


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """The core with most softirq time, where none has too much."""
    rates = [timeline.rate(NEEDS[0], cpu) for cpu in timeline.subjects(NEEDS[0], "cpu")]
    known = [rate for rate in rates if len(rate) and not np.isnan(rate.mean())]
    if not known:
        return "", ()
    most = max(known, key=Series.mean)
    cpu = most.subject.replace(":", " ")
    return f"{cpu} had most softirqs: {percent(most.mean())} of its time", (_share(most),)


def _kinds(timeline: Timeline, cpu: str, span: Span) -> tuple[str, tuple[Reading, ...]]:
    """What the softirqs were, by sampled stacks; without stacks, by how often each kind ran."""
    rates = {kind: timeline.rate(f"softirqs_{kind}_total", cpu, within=span) for kind in _COUNTED}
    often = {kind: rate.mean() for kind, rate in rates.items() if len(rate) and rate.mean() > 0}
    counted = tuple(
        _often(rates[kind], often[kind]) for kind in sorted(often, key=lambda it: often[it], reverse=True)[:SHOWN]
    )
    caught = timeline.samples(span, cpu=int(cpu.removeprefix("cpu:")), wanted=_softirq)
    if len(caught):
        kinds = [softirq_kind(caught.frames.names(stack)) for stack in caught.stack.tolist()]
        first = max(set(kinds), key=kinds.count)
        words = f"{first} in {kinds.count(first):,} of {len(kinds):,} stacks"
        rate = often.get(first.lower())
        return f"{words}{f', {rate:,.0f} a second' if rate else ''}", (caught.reading(cpu), *counted)
    words = ", ".join(f"{it.what[9:-11].upper()} {it.value:,.0f} a second" for it in counted)
    return words or "kind unknown", counted


def _often(rate: Series, value: float) -> Reading:
    what = rate.what.removesuffix("_total") + "_per_second"
    return Reading(what=what, subject=rate.subject, value=round(value, 2), at=rate.span.start, source="/proc/softirqs")


def _share(storm: Series) -> Reading:
    value = round(storm.mean(), 4)
    return Reading(
        what="cpu_softirq_ratio", subject=storm.subject, value=value, at=storm.span.start, source=storm.sources[0]
    )
