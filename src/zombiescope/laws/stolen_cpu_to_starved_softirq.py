"""A core that the hypervisor keeps runs nothing at all, so its softirqs wait as long as it is kept."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 1.0  # seconds: the wait ends with the theft
EXPLAINS = 0.5  # of the waiting: less stolen than that, and something else keeps them


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    if cause.subject not in ("node", effect.subject):
        return
    stolen = timeline.rate("cpu_steal_seconds_total", effect.subject).between(effect.span)
    waited = [it for it in effect.evidence if it.what in ("thread_run_delay_ratio", "core_gap_ratio")]
    if len(stolen) and waited and stolen.mean() >= EXPLAINS * waited[0].value:
        evidence = (cause.evidence[0], waited[0])
        yield Ground(kind="place", says=f"{effect.subject} itself was kept", evidence=evidence)
        yield Ground(
            kind="dose",
            says=f"{stolen.mean():.0%} of the time was stolen and {waited[0].value:.0%} waited",
            evidence=evidence,
        )
