"""A cgroup whose CPU quota is used up is throttled, so its threads wait for the next period though cores are idle."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 2.0  # seconds: a waiting thread runs in the next period
EXPLAINS = 0.5  # of the waiting: with less time throttled than that, something else makes it wait


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    """The kernel counts time in a throttled cgroup as waiting to run: the thread is runnable and does not run."""
    group = timeline.series("process_in_cgroup", effect.subject).between(effect.span)
    path = cause.subject.removeprefix("cgroup:")
    if not len(group) or not f"{group.latest.text}/".startswith(f"{path.rstrip('/')}/"):
        return
    stopped = next((it for it in cause.evidence if it.what == "cgroup_throttled_seconds_per_second"), None)
    waited = next((it for it in effect.evidence if it.what == "run_delay_ratio"), None)
    if stopped is not None and waited is not None and stopped.value >= EXPLAINS * waited.value:
        yield Ground(kind="place", says=f"it runs in {path}", evidence=(group.latest, cause.evidence[0]))
        says = f"throttled {stopped.value:.2f} s of each second, and it waited {waited.value:.2f} s"
        yield Ground(kind="dose", says=says, evidence=(stopped, waited))
