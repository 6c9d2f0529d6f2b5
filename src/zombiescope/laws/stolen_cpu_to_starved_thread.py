"""During CPU steal a core runs nothing at all, so a thread that is queued on it waits until the steal ends."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, percent
from zombiescope.core.timeline import Timeline

WITHIN = 1.0  # seconds: the wait ends with the steal
EXPLAINS = 0.5  # of the waiting: with less steal than that, something else makes it wait


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    waited = next((it for it in effect.evidence if it.what == "run_delay_ratio"), None)
    for what in ("process_cpu", "thread_cpu", "task_cpu"):
        place = timeline.series(what, effect.subject).between(effect.span)
        if waited is None or not len(place):
            continue
        core = f"cpu:{place.latest.value:.0f}"
        stolen = timeline.rate("cpu_steal_seconds_total", core, within=effect.span)
        if cause.subject in ("node", core) and len(stolen) and stolen.mean() >= EXPLAINS * waited.value:
            evidence = (cause.evidence[0], place.latest, waited)
            yield Ground(kind="place", says=f"it was queued on {core.replace(':', ' ')}", evidence=evidence)
            says = f"{percent(stolen.mean())} CPU steal while it waited {percent(waited.value)} of the time"
            yield Ground(kind="dose", says=says, evidence=evidence)
