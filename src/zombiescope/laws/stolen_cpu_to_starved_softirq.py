"""During CPU steal a core runs nothing at all, so its softirqs wait until the steal ends."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, percent
from zombiescope.core.timeline import Timeline
from zombiescope.derived.softirq_times import seen_waiting

WITHIN = 1.0  # seconds: the wait ends with the steal
EXPLAINS = 0.5  # of the waiting: with less steal than that, something else makes them wait


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    if cause.subject not in ("node", effect.subject):
        return
    stolen = timeline.rate("cpu_steal_seconds_total", effect.subject, within=effect.span)
    waited = [it for it in effect.evidence if it.what in ("thread_run_delay_ratio", "core_gap_ratio")]
    if len(stolen) and waited and stolen.mean() >= EXPLAINS * waited[0].value:
        evidence = (cause.evidence[0], waited[0])
        yield Ground(kind="place", says=f"{effect.subject.replace(':', ' ')} had the steal", evidence=evidence)
        yield Ground(
            kind="dose",
            says=f"{percent(stolen.mean())} CPU steal, and softirqs waited {percent(waited[0].value)} of the time",
            evidence=evidence,
        )
        yield from seen_waiting(cause, effect, timeline)
