"""Nearly all network work of the node is done by one core, which is busy with it while the others are idle.

Why it hurts: that core is the node's network. When it is full, packets wait or are dropped, and threads bound to it
    starve; the average over cores shows nothing.
False alarms: a sender that is its own receiver (loopback) works on its own core, a third of it at most in softirqs. A
    card with one queue can be served by only one core: it is reported when that core is the bottleneck, and the fix is
    to spread packets (rps_cpus), not interrupts. A node with one core has nowhere to spread them. Where other work has
    its share of that core, ksoftirqd must have packets to handle at all times.
References: Documentation/networking/scaling.rst; Documentation/core-api/irq/irq-affinity.rst.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zombiescope.core import Finding, Reading, Span, harmless, lasting, percent
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.packet_work import packet_work_harm
from zombiescope.derived.pressure import pressure
from zombiescope.derived.softirq_backlog import waited, wanted

SOFTIRQ, IRQ, IDLE, NICE = (f"cpu_{mode}_seconds_total" for mode in ("softirq", "irq", "idle", "nice"))
PACKETS = "softnet_processed_total"
# Scale: shares of one core and of the node's packets; the others' part is an average over them.
NEEDS = (SOFTIRQ, IRQ, IDLE, PACKETS)
HEAVY = 0.6  # of a core in interrupts and softirqs: loopback TCP takes at most 0.34
SECONDS = 3.0  # shorter bursts are ordinary
BRIDGE = 0.6  # seconds: ticks are coarse, two samples below HEAVY do not split a period in two
NEARLY_ALL = 0.8  # of the node's packets: two cores that share the work have half each
LITTLE = 0.25  # of this core's interrupt work, for each other core on average: with more they share the work
# Room: idle, or at work of low priority, which gives way.
ROOM = 0.25  # of the other cores' time: with less there is nowhere to spread the work to
POLITE = 0.05  # of a core's time at low priority: less is not worth a word
PACKED = 1_000.0  # packets a second: fewer cannot be what keeps a core busy
SHOWN = 4  # queues named


def find(timeline: Timeline) -> Iterator[Finding]:
    cores = timeline.subjects(SOFTIRQ, "cpu")
    for cpu in cores:
        work = _work(timeline, cpu)
        for heavy in wanted(timeline, work, SECONDS).runs(above=HEAVY, lasting=SECONDS, bridging=BRIDGE):
            spell = work.between(heavy.span)
            waits, waiting = waited(timeline, cpu, spell.span)
            others = [other for other in cores if other != cpu]
            if not others:
                continue
            idle = _mean([timeline.rate(IDLE, other) for other in others], spell.span)
            polite = _mean([timeline.rate(NICE, other) for other in others], spell.span)
            elsewhere = _mean([_work(timeline, other) for other in others], spell.span)
            own, all_packets = _packets(timeline, cpu, spell.span), _packets(timeline, "", spell.span)
            piled = own >= PACKED and own >= NEARLY_ALL * all_packets and elsewhere <= LITTLE * spell.mean()
            if piled and idle + np.nan_to_num(polite) >= ROOM:
                queues = [it for it in timeline.latest("nic_irq_cpu") if f"cpu:{it.value:.0f}" == cpu]
                yield Finding(
                    subject=cpu,
                    span=spell.span,
                    says=(
                        f"spent {percent(spell.mean())} of its time in interrupts and softirqs for "
                        f"{lasting(spell.span.seconds)}{waits}, with {own:,.0f} of the node's "
                        f"{all_packets:,.0f} packets a second, while the other cores were "
                        f"{percent(idle)} idle{_gives_way(polite)}; {_served(timeline, queues, spell.span)}"
                    ),
                    evidence=(
                        spell.figure("cpu_interrupt_ratio"),
                        timeline.rate(PACKETS, cpu, within=spell.span).figure("packets_per_second", own),
                        replace(timeline.rate(IDLE, others[0]), subject="node").figure("other_cores_idle_ratio", idle),
                        *waiting,
                        *queues[:SHOWN],
                        *pressure(timeline, "irq_stalled", spell.span),
                    ),
                    harm=packet_work_harm(timeline, spell),
                )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """The core with most interrupt work, where it is not too much."""
    work = [_work(timeline, cpu) for cpu in timeline.subjects(SOFTIRQ, "cpu")]
    known = [each for each in work if len(each) and not np.isnan(each.mean())]
    if not known:
        return "", ()
    most = max(known, key=Series.mean)
    return (
        f"{most.subject.replace(':', ' ')} had most interrupts and softirqs: {percent(most.mean())} of its time",
        (most.figure("cpu_interrupt_ratio"),),
    )


def _work(timeline: Timeline, cpu: str) -> Series:
    return timeline.once(_worked, cpu)


def _worked(timeline: Timeline, cpu: str) -> Series:
    softirq, irq = timeline.rate(SOFTIRQ, cpu), timeline.rate(IRQ, cpu)
    return replace(softirq, values=softirq.values + irq.values) if len(irq) == len(softirq) else softirq


def _mean(series: list[Series], span: Span) -> float:
    known = [each.between(span).mean() for each in series if len(each)]
    return float(np.nanmean(known)) if known else 0.0


def _gives_way(polite: float) -> str:
    return f" and {percent(polite)} at work of low priority" if polite >= POLITE else ""


def _packets(timeline: Timeline, cpu: str, span: Span) -> float:
    """Packets a second taken in by one core, or by all."""
    cores = [cpu] if cpu else timeline.subjects(PACKETS, "cpu")
    return float(np.nansum([timeline.rate(PACKETS, core, within=span).mean() for core in cores]))


def _served(timeline: Timeline, queues: list[Reading], span: Span) -> str:
    if not queues:
        return "it serves no NIC queue: packets are steered to it (rps_cpus) or come from a virtual interface"
    rates = [timeline.rate("nic_interrupts_total", it.subject, within=span) for it in queues]
    often = sum(np.nan_to_num(rate.mean()) for rate in rates if len(rate))
    names = ", ".join(harmless(it.text) for it in queues[:SHOWN])
    more = f" and {len(queues) - SHOWN} more" if len(queues) > SHOWN else ""
    return f"it serves {names}{more}, {often:,.0f} interrupts a second"
