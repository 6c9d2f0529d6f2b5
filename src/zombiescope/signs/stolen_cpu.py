"""CPU steal: the hypervisor does not run this machine's cores while they have work.

Why it hurts: everything on that core stops, interrupts and softirqs as well, and no other counter inside the machine
    shows it: programs seem slow for no reason, and a soft lockup may be reported against innocent code.
False alarms: burstable instances that have used up their credits get less on purpose; it hurts all the same.
    A hypervisor that does not report steal leaves this at 0: clear here is not proof.
References: Documentation/filesystems/proc.rst, 1.7 (steal).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zombiescope.core import Finding, Reading, lasting, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Series, Timeline

# Scale: a share of one core's time, or of all cores' together.
NEEDS = ("cpu_steal_seconds_total",)
STOLEN = 0.2  # of the time: a neighbour's burst takes a few percent; a fifth makes the machine noticeably slower
SECONDS = 2.0  # shorter is a neighbour that starts
BRIDGE = 1.0  # seconds: a core that is idle for a moment has no steal


def find(timeline: Timeline) -> Iterator[Finding]:
    stolen = {cpu: timeline.rate(NEEDS[0], cpu) for cpu in timeline.subjects(NEEDS[0], "cpu")}
    # Steal on all cores at once is a finding of the node, not of a core.
    whole = _spells(_least(stolen)) if len(stolen) > 1 else []
    spells = whole or [spell for rate in stolen.values() for spell in _spells(rate)]
    yield from (_finding(spell, stolen) for spell in spells)


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    """The core with most steal."""
    rates = [timeline.rate(NEEDS[0], cpu) for cpu in timeline.subjects(NEEDS[0], "cpu")]
    known = [rate for rate in rates if not np.isnan(rate.mean())]
    if not known:
        return "", tuple(timeline.latest(NEEDS[0])[:1])
    most = max(known, key=lambda rate: rate.mean())
    ratio = _figure(most)
    return f"most CPU steal: {percent(ratio.value, 1)} of {most.subject.replace(':', ' ')}", (ratio,)


def _least(stolen: dict[str, Series]) -> Series:
    """The steal that every core had at least."""
    first, *others = stolen.values()
    values = first.values.copy()
    for rate in others:
        np.minimum(values, rate.values, out=values)
    return replace(first, subject="node", values=values)


def _spells(rate: Series) -> list[Series]:
    return rate.runs(above=STOLEN, lasting=SECONDS, bridging=BRIDGE)


def _finding(spell: Series, stolen: dict[str, Series]) -> Finding:
    where = " on every core" if spell.subject == "node" else ""
    return Finding(
        subject=spell.subject,
        span=spell.span,
        says=f"had {percent(spell.mean())} CPU steal{where} for {lasting(spell.span.seconds)}",
        evidence=(_figure(spell),),
        harm=Harm(
            parts=tuple(
                Part(
                    figure="waited",
                    who=cpu,
                    amount=float(np.nan_to_num(rate.between(spell.span).mean())),
                    span=spell.span,
                )
                for cpu, rate in stolen.items()
                if spell.subject in ("node", cpu)
            )
        ),
    )


def _figure(rate: Series) -> Reading:
    return Reading(
        what="cpu_steal_ratio",
        subject=rate.subject,
        value=round(rate.mean(), 4),
        at=rate.span.start,
        source=rate.sources[0],
    )
