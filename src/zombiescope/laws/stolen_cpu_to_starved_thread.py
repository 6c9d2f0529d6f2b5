"""A core that the hypervisor keeps runs nothing at all, so whoever is queued on it waits as long as it is kept."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 1.0  # seconds: the wait ends with the theft
EXPLAINS = 0.5  # of the waiting: less stolen than that, and something else keeps it


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    waited = next((it for it in effect.evidence if it.what == "run_delay_ratio"), None)
    for what in ("process_cpu", "thread_cpu"):
        place = timeline.series(what, effect.subject).between(effect.span)
        if waited is None or not len(place):
            continue
        core = f"cpu:{place.latest.value:.0f}"
        stolen = timeline.rate("cpu_steal_seconds_total", core).between(effect.span)
        if cause.subject in ("node", core) and len(stolen) and stolen.mean() >= EXPLAINS * waited.value:
            evidence = (cause.evidence[0], place.latest, waited)
            yield Ground(kind="place", says=f"it was queued on {core}", evidence=evidence)
            says = f"{stolen.mean():.0%} of {core} was stolen while it waited {waited.value:.0%}"
            yield Ground(kind="dose", says=says, evidence=evidence)
