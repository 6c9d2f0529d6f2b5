"""All of a cgroup stands still once its quota is used up, so its threads wait for the next period with cores idle."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 2.0  # seconds: who waited runs with the next period
EXPLAINS = 0.5  # of the waiting: less time stopped than that, and something else keeps it


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    """The kernel counts time in a stopped cgroup as waiting to run: the thread is runnable and not run."""
    group = timeline.series("process_in_cgroup", effect.subject).between(effect.span)
    path = cause.subject.removeprefix("cgroup:")
    if not len(group) or not f"{group.latest.text}/".startswith(f"{path.rstrip('/')}/"):
        return
    stopped = next((it for it in cause.evidence if it.what == "cgroup_throttled_seconds_per_second"), None)
    waited = next((it for it in effect.evidence if it.what == "run_delay_ratio"), None)
    if stopped is not None and waited is not None and stopped.value >= EXPLAINS * waited.value:
        yield Ground(kind="place", says=f"it is in {path}", evidence=(group.latest, cause.evidence[0]))
        says = f"stopped {stopped.value:.2f} s of each second, and it waited {waited.value:.2f} s"
        yield Ground(kind="dose", says=says, evidence=(stopped, waited))
