"""The hypervisor keeps cores from this machine while it wants to run on them.

Why it hurts: everything on that core stands still, interrupts and softirqs as well, and no counter inside the machine
    but this one can tell: programs seem slow for no reason, and a soft lockup may be reported of innocent code.
False alarms: burstable instances that have used up their credits are given less on purpose; it hurts all the same.
    A hypervisor that does not tell leaves this at nought: clear here is not proof.
References: Documentation/filesystems/proc.rst, 1.7 (steal).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zombiescope.core import Finding, Reading, lasting
from zombiescope.core.timeline import Series, Timeline

NEEDS = ("cpu_steal_seconds_total",)
STOLEN = 0.2  # of the time: a neighbour's burst takes a few percent; a fifth is felt as a slower machine
SECONDS = 2.0  # shorter is a neighbour that starts
BRIDGE = 1.0  # seconds: a core that is idle for a moment has nothing stolen


def find(timeline: Timeline) -> Iterator[Finding]:
    stolen = {cpu: timeline.rate(NEEDS[0], cpu) for cpu in timeline.subjects(NEEDS[0], "cpu")}
    # All cores at once is the machine's trouble, not a core's.
    whole = _spells(_least(stolen)) if len(stolen) > 1 else []
    yield from map(_finding, whole or [spell for rate in stolen.values() for spell in _spells(rate)])


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """The core that was kept from us most."""
    rates = [timeline.rate(NEEDS[0], cpu) for cpu in timeline.subjects(NEEDS[0], "cpu")]
    known = [rate for rate in rates if not np.isnan(rate.mean())]
    if not known:
        return "", tuple(timeline.latest(NEEDS[0])[:1])
    most = max(known, key=lambda rate: rate.mean())
    ratio = _figure(most)
    return f"most: {ratio.value:.1%} of {most.subject}", (ratio,)


def _least(stolen: dict[str, Series]) -> Series:
    """What was kept of each core at the least."""
    values = np.min([rate.values for rate in stolen.values()], axis=0)
    return replace(next(iter(stolen.values())), subject="node", values=values)


def _spells(rate: Series) -> list[Series]:
    return rate.runs(above=STOLEN, lasting=SECONDS, bridging=BRIDGE)


def _finding(spell: Series) -> Finding:
    whose = "every core's time" if spell.subject == "node" else "its time"
    return Finding(
        subject=spell.subject,
        span=spell.span,
        says=f"the hypervisor kept {spell.mean():.0%} of {whose} for {lasting(spell.span.seconds)}",
        evidence=(_figure(spell),),
    )


def _figure(rate: Series) -> Reading:
    return Reading(
        what="cpu_steal_ratio",
        subject=rate.subject,
        value=round(rate.mean(), 4),
        at=rate.span.start,
        source=rate.sources[0],
    )
