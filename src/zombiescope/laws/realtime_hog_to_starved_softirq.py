"""ksoftirqd and NAPI threads are ordinary threads, so on the core of one with real-time priority they wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 2.0  # seconds: who waited runs as soon as the hog rests


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    """Only a *thread* can be kept waiting so: softirqs that run at the end of an interrupt come before any thread."""
    waited = next((it for it in effect.evidence if it.what == "thread_run_delay_ratio"), None)
    hog = {it.what: it for it in cause.evidence}
    priority = hog.get("process_realtime_priority") or hog.get("thread_realtime_priority")
    used = hog.get("realtime_used_ratio")
    if waited is None or priority is None or used is None:
        return
    core = int(effect.subject.removeprefix("cpu:"))
    thread = waited.subject.removeprefix("thread:")
    for what in ("process_cpu", "thread_realtime_cpu"):
        places = timeline.series(what, cause.subject).between(effect.span)
        there = [places.reading(place) for place in range(len(places)) if places.values[place] == core]
        if there:
            yield Ground(kind="place", says=f"it ran on {effect.subject}", evidence=(there[0], waited))
            says = (
                f"{priority.text} used {used.value:.0%} of a core while {thread}, an ordinary thread, "
                f"waited {waited.value:.2f} s of each second"
            )
            yield Ground(kind="mechanism", says=says, evidence=(priority, used, waited))
