"""A cgroup whose CPU quota is used up is throttled, so its threads wait for the next period, cores idle or not."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, percent
from zombiescope.core.timeline import Timeline
from zombiescope.derived.run_delays import seen_waiting

WITHIN = 2.0  # seconds: a waiting thread runs in the next period
EXPLAINS = 0.5  # of the waiting: with less time throttled than that, something else makes it wait
EVERY = 0.9  # of its periods: a cgroup that uses its quota up in each gets no more, however long others keep it waiting


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    """The kernel counts time in a throttled cgroup as waiting to run: the thread is runnable and does not run."""
    group = timeline.series("process_in_cgroup", effect.subject).between(effect.span)
    path = cause.subject.removeprefix("cgroup:")
    if not len(group) or not f"{group.latest.text}/".startswith(f"{path.rstrip('/')}/"):
        return
    told = {it.what: it for it in (*cause.evidence, *effect.evidence)}
    names = ("cgroup_throttled_seconds_per_second", "cgroup_throttled_ratio", "run_delay_ratio")
    stopped, periods, waited = (told.get(name) for name in names)
    if stopped is None or periods is None or waited is None:
        return
    if stopped.value >= EXPLAINS * waited.value or periods.value >= EVERY:
        yield Ground(kind="place", says=f"it runs in {path}", evidence=(group.latest, cause.evidence[0]))
        says = (
            f"throttled in {percent(periods.value)} of the periods, {stopped.value:.2f} s of each second, "
            f"and it waited {waited.value:.2f} s"
        )
        yield Ground(kind="dose", says=says, evidence=(stopped, periods, waited))
        yield from seen_waiting(timeline, group.latest.text, effect.span)
