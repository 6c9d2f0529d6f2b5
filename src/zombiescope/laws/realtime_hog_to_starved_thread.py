"""A real-time thread runs before any ordinary one, so a thread that can run only on its core waits for it."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, Reading, percent
from zombiescope.core.timeline import Timeline

WITHIN = 2.0  # seconds: the waiting thread runs as soon as the hog sleeps


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    """A thread seen on several cores can run elsewhere, and does not wait for a hog on one of them."""
    hog = {it.what: it for it in cause.evidence}
    priority = hog.get("process_realtime_priority") or hog.get("thread_realtime_priority")
    used = hog.get("realtime_used_ratio")
    waited = next((it for it in effect.evidence if it.what == "run_delay_ratio"), None)
    waits_on = _cores(timeline, effect, ("process_cpu", "thread_cpu", "task_cpu"))
    shared = _cores(timeline, cause, ("process_cpu", "thread_realtime_cpu")).keys() & waits_on.keys()
    if priority is None or used is None or waited is None or len(waits_on) != 1 or not shared:
        return
    its_own = timeline.series("process_realtime_priority", effect.subject).between(effect.span)
    level = its_own.latest.value if len(its_own) else 0
    if cause.subject == effect.subject or level >= priority.value:
        return
    core = shared.pop()
    theirs = f"real-time priority {level:.0f}" if level else "no real-time priority"
    yield Ground(kind="place", says=f"both were on cpu {core}", evidence=(waits_on[core], used))
    yield Ground(
        kind="mechanism",
        says=(
            f"{priority.text} used {percent(used.value)} of a core while a thread with {theirs} waited "
            f"{percent(waited.value)} of the time"
        ),
        evidence=(priority, used, waited),
    )


def _cores(timeline: Timeline, finding: Finding, whats: tuple[str, ...]) -> dict[int, Reading]:
    """The cores it was last seen on in its span, each with the reading that says so."""
    found = {}
    for what in whats:
        places = timeline.series(what, finding.subject).between(finding.span)
        for place in range(len(places)):
            reading = places.reading(place)
            found[int(reading.value)] = reading
    return found
