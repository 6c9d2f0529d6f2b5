"""Most of the time that packets take here goes into firewall rules, which are tried one after the other.

Why it hurts: ten thousand rules cost each new packet a millisecond of a core; the core that takes packets in has no
    time left for others, and ksoftirqd runs all the time. Rules double when an agent adds its own again at every
    start.
False alarms: a gateway or a node with a thousand services has many rules on purpose. What counts is their share of
    the time that packets take and that this is much, not how many there are. The rules themselves are never listed:
    that takes the lock that their writers wait for.
References: net/ipv4/netfilter/ip_tables.c; net/netfilter/nf_tables_core.c; kube-proxy's nftables and IPVS modes.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from zombiescope.core import Finding, Reading, harmless, percent
from zombiescope.core.harm import Harm
from zombiescope.core.samples import Samples
from zombiescope.core.timeline import Timeline
from zombiescope.derived.sampled_work import length, spells, spent_in
from zombiescope.knowledge.functions import named, plain, shows, softirq_kind

# Scale: a share of the time that packets take, and cores' worth: a core that takes them in is the same on any node.
NEEDS = ("samples_total", "kernel_symbols")
SHARE = 0.3  # of the time that packets take: on a node with few rules it is below 0.05
CORES = 0.15  # of a core, over the spell: less delays no packet


def find(timeline: Timeline) -> Iterator[Finding]:
    rules, packets = timeline.once(_rules), timeline.once(_packets)
    for work in spells("node", rules):
        all_of_it = packets.within(work.span).seconds
        cores = work.seconds / max(work.span.seconds, 1.0)
        if cores >= CORES and work.seconds >= SHARE * all_of_it > 0:
            name = next((it for frame in work.samples.hottest() if (it := plain(frame)) in named("rule_walk")), "")
            yield Finding(
                subject="node",
                span=work.span,
                says=(
                    f"tried firewall rules for {work.seconds:.1f} s of {length(timeline):.0f} s ({harmless(name)}): "
                    f"{percent(work.seconds / all_of_it)} of the time that packets take, {cores:.2f} of a core"
                ),
                evidence=(
                    work.samples.reading("node", "rule_sampled_seconds"),
                    packets.within(work.span).reading("node", "packet_sampled_seconds"),
                ),
                harm=Harm(parts=tuple(work.burnt(timeline))),
            )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    return spent_in(timeline, timeline.once(_rules), "rule_sampled_seconds", "firewall rules")


def _rules(timeline: Timeline) -> Samples:
    return timeline.samples(wanted=lambda frames: shows(frames, "rule_walk"))


def _packets(timeline: Timeline) -> Samples:
    return timeline.samples(wanted=_takes_packets)


def _takes_packets(frames: Sequence[str]) -> bool:
    return softirq_kind(plain(it) for it in frames) in ("NET_RX", "NET_TX") or shows(frames, "rule_walk")
