"""ksoftirqd and NAPI threads have ordinary priority, so they wait for a real-time thread on their core."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, percent
from zombiescope.core.timeline import Timeline
from zombiescope.derived.softirq_times import seen_waiting

WITHIN = 2.0  # seconds: the waiting thread runs as soon as the hog sleeps


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    """Only a *thread* waits like this: softirqs that run at the end of an interrupt come before any thread."""
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
            yield Ground(kind="place", says=f"it ran on cpu {core}", evidence=(there[0], waited))
            says = (
                f"{priority.text} used {percent(used.value)} of a core while {thread}, an ordinary thread, "
                f"waited {waited.value:.2f} s of each second"
            )
            yield Ground(kind="mechanism", says=says, evidence=(priority, used, waited))
            yield from seen_waiting(cause, effect, timeline)
