"""One softirq runs for tens of milliseconds at a time, and its core takes no packet meanwhile.

Why it hurts: whatever else comes to that core waits as long: requests that are usually answered in a millisecond take
    30 or 200 at random. A timer that goes through all IPVS services, or a socket whose whole receive queue is packed
    anew, does it.
False alarms: a burst of packets keeps a softirq running too, but that one is the packets' own work. Only functions
    known to go through something long are looked for.
References: net/netfilter/ipvs/ip_vs_est.c; net/ipv4/tcp_input.c, tcp_collapse;
    Documentation/networking/ip-sysctl.rst.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zombiescope.core import Finding, Reading, harmless
from zombiescope.core.harm import Harm, Part
from zombiescope.core.samples import Samples
from zombiescope.core.timeline import Timeline
from zombiescope.derived.sampled_work import FEWEST, length
from zombiescope.knowledge.functions import families, named, plain, shows

# Scale: milliseconds at a time on one core: the same on any node.
NEEDS = ("samples_total", "kernel_symbols")
LONG = 0.01  # seconds at a time: a softirq is to end after 2 ms (MAX_SOFTIRQ_TIME)
OFTEN = 0.02  # of one core, over the recording: less is one slow request an hour
BETWEEN = 2.5  # sampling periods between two samples of one run: one may be late


def find(timeline: Timeline) -> Iterator[Finding]:
    samples = timeline.once(_long)
    for cpu in np.unique(samples.cpu).tolist():
        own = samples.only(samples.cpu == cpu)
        longest = _longest(own)
        if len(own) >= FEWEST and longest >= LONG and own.seconds >= OFTEN * length(timeline):
            yield _finding(timeline, cpu, own, longest)


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    taken, samples = timeline.series(NEEDS[0]).latest, timeline.once(_long)
    return f"{len(samples)} of {taken.value:,.0f} stack samples are of a softirq known to be long", (taken,)


def _long(timeline: Timeline) -> Samples:
    return timeline.samples(wanted=lambda frames: shows(frames, "long_softirq"))


def _longest(samples: Samples) -> float:
    """Seconds at a time: samples of one core without another between them."""
    period = 1 / samples.hz if samples.hz else 0.01
    apart = np.diff(samples.at_seconds) > BETWEEN * period
    runs = np.split(samples.weight_seconds, np.flatnonzero(apart) + 1)
    return max((float(it.sum()) for it in runs if len(it) > 1 or it.sum() > 1.5 * period), default=0.0)


def _finding(timeline: Timeline, cpu: int, own: Samples, longest: float) -> Finding:
    name = next((it for frame in own.hottest() if (it := plain(frame)) in named("long_softirq")), "")
    what = next((it.says for it in families() if it.family == "long_softirq" and name in it.names), "")
    cores = own.seconds / length(timeline)
    where = timeline.looks(NEEDS[0]).span
    return Finding(
        subject=f"cpu:{cpu}",
        span=where,
        says=(
            f"ran {harmless(name)} ({what}) for up to {longest * 1e3:.0f} ms at a time, {own.seconds:.1f} s in all, "
            "and took no packet meanwhile"
        ),
        evidence=(own.reading(f"cpu:{cpu}", "long_softirq_sampled_seconds"),),
        harm=Harm(parts=(Part(figure="waited", who=f"cpu:{cpu}", amount=cores, span=where),)),
    )
