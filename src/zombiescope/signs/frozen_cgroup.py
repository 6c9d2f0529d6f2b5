"""A cgroup is frozen, or parked because it is out of memory and may not be OOM-killed: its processes stand still.

Why it hurts: a pod that is frozen answers nothing, uses no CPU and looks healthy. A runtime freezes a cgroup for
    moments, and if it dies meanwhile nobody thaws it; short freezes that repeat add up. With the OOM killer switched
    off (cgroup v1), a task at its limit sleeps with its locks, and whatever asks about it (ps) hangs as well.
False alarms: `docker pause`, CRIU and a debugger freeze on purpose; the finding says for how long. A freeze of less
    than ten seconds is not reported.
References: Documentation/admin-guide/cgroup-v2.rst, cgroup.freeze; cgroup-v1/freezer-subsystem.rst;
    cgroup-v1/memory.rst 10.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.owners import whose
from zombiescope.core import Finding, Reading, Span, harmless, lasting
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Timeline
from zombiescope.derived.blocked import sleepers

_FROZEN, _COUNT = "cgroup_frozen", "cgroups_frozen"
# Scale: seconds of one cgroup: the same on any node.
NEEDS = (_COUNT,)
LONG = 8.0  # seconds: a runtime that changes a device freezes for milliseconds; a checkpoint takes longer, on purpose
_PARKED = ("mem_cgroup_oom_synchronize", "mem_cgroup_oom_trylock")  # /proc/PID/wchan


def find(timeline: Timeline) -> Iterator[Finding]:
    for subject in timeline.subjects(_FROZEN, "cgroup"):
        for frozen in timeline.series(_FROZEN, subject).runs(above=1.0, lasting=LONG):
            yield _finding(timeline, subject, frozen.span, frozen.first)
    for parked in sleepers(timeline, *_PARKED, least=LONG):
        group = timeline.series("process_in_cgroup", parked.subject)
        where = f" in {harmless(group.latest.text)}" if len(group) else ""
        yield Finding(
            subject=parked.subject,
            span=parked.span,
            says=f"is parked{where} for {lasting(parked.span.seconds)}: out of memory, with OOM kills switched off",
            evidence=(parked.reading, *([group.latest] if len(group) else [])),
            harm=Harm(parts=(Part(figure="waited", who=parked.subject, amount=1.0, span=parked.span),)),
        )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    now = timeline.latest(_COUNT)
    return f"{now[0].value:,.0f} cgroups are frozen" if now else "", tuple(now)


def _finding(timeline: Timeline, subject: str, span: Span, first: Reading) -> Finding:
    return Finding(
        subject=subject,
        span=span,
        says=f"is frozen for {lasting(span.seconds)}: no process of {whose(timeline, '', subject)} runs",
        evidence=(first, *timeline.latest(_COUNT)),
        culprit=subject,
        harm=Harm(parts=(Part(figure="waited", who=subject, amount=1.0, span=span),)),
    )
