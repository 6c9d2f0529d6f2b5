"""A task in direct reclaim waits, uninterruptibly, for pages to be written or for other tasks in reclaim."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, Reading, percent
from zombiescope.core.timeline import Timeline

WITHIN = 5.0  # seconds: blocked tasks are sampled that often
STALLED = 0.05  # of the time that all tasks waited for memory: less blocks nobody for seconds
MEMORY = 0.5  # of the time that tasks waited for IO: with less waiting for memory, the disk explains it better
# Where a task sleeps while it waits in reclaim, or for a page that was dropped: /proc/PID/wchan.
_WAITS = ("reclaim_throttle", "throttle_direct_reclaim", "congestion_wait", "wait_iff_congested", "mem_cgroup_oom")


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    waits = [it for it in effect.evidence if any(name in it.text for name in _WAITS)]
    if waits:
        says = f"{waits[0].subject.removeprefix('process:')} waits in {waits[0].text}"
        yield Ground(kind="mechanism", says=says, evidence=(waits[0], cause.evidence[0]))
    inside = list(_inside(cause.subject, effect, timeline))
    memory, io = (timeline.rate(f"pressure_{kind}_stalled_seconds_total") for kind in ("memory", "io"))
    if not (waits or inside) or not len(memory) or not len(io):
        return
    stalled, disk = (rate.between(effect.span).mean() for rate in (memory, io))
    if stalled < max(STALLED, MEMORY * disk):
        return
    if inside:
        who, where = inside[0].subject.removeprefix("process:"), cause.subject.removeprefix("cgroup:")
        yield Ground(kind="place", says=f"{who} runs in {where}", evidence=(inside[0], cause.evidence[0]))
    yield Ground(
        kind="dose",
        says=f"all tasks waited for memory {percent(stalled)} of that time, and for IO {percent(disk)}",
        evidence=(memory.between(effect.span).latest, io.between(effect.span).latest),
    )


def _inside(cgroup: str, effect: Finding, timeline: Timeline) -> Iterator[Reading]:
    """Blocked tasks in the cgroup that reclaims, or below it. Reclaim of the whole node is nobody's in particular."""
    path = cgroup.removeprefix("cgroup:").rstrip("/")
    for subject in {it.subject: None for it in effect.evidence if cgroup.startswith("cgroup:")}:
        group = timeline.series("process_in_cgroup", subject).between(effect.span)
        if len(group) and f"{group.latest.text}/".startswith(f"{path}/"):
            yield group.latest
