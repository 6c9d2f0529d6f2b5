"""A task that must free memory waits, uninterruptibly, for pages to be written or for others that search as well."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 5.0  # seconds: blocked tasks are looked for that often
MEMORY = 0.5  # of the time that tasks waited for IO: with more of that, the disk explains it better
# Where a task sleeps that waits in reclaim, or for a page that was dropped: /proc/PID/wchan.
_WAITS = ("reclaim_throttle", "throttle_direct_reclaim", "congestion_wait", "wait_iff_congested", "mem_cgroup_oom")


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    waits = [it for it in effect.evidence if any(name in it.text for name in _WAITS)]
    if waits:
        says = f"caught in the act: {waits[0].subject.removeprefix('process:')} waits in {waits[0].text}"
        yield Ground(kind="mechanism", says=says, evidence=(waits[0], cause.evidence[0]))
    memory, io = (timeline.rate(f"pressure_{kind}_stalled_seconds_total") for kind in ("memory", "io"))
    if not len(memory) or not len(io):
        return
    stalled, disk = (rate.between(effect.span).mean() for rate in (memory, io))
    if stalled > 0 and stalled >= MEMORY * disk:
        yield Ground(
            kind="dose",
            says=f"meanwhile all tasks waited for memory {stalled:.0%} of the time, and for IO {disk:.0%}",
            evidence=(memory.between(effect.span).latest, io.between(effect.span).latest),
        )
