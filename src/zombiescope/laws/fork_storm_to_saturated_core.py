"""Starting and exiting a process is kernel work of about half a millisecond, so enough of them fill cores."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.core_work import fills_core, sampled_on

WITHIN = 1.0  # seconds: the work is done where and when the fork is
MADE = 0.3  # of what that core did: the page faults of the new processes are as much again, and the rest is their own
CHEAPEST = 50e-6  # seconds for each: a thread, which shares what a process has to copy
DEAREST = 3e-3  # seconds for each: a large process to copy, or many cores that contend for the same locks


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    words, called = "fork, exec and exit are", "fork_sampled_seconds"
    seen = list(fills_core(effect, timeline, "process_making", least=MADE, words=words, called=called))
    if seen:
        yield from (*seen, *_dose(cause, effect, timeline))


def lacks(effect: Finding, timeline: Timeline) -> str:
    """What could not be seen: whether that core forks."""
    if len(sampled_on(effect, timeline)):
        return ""
    return f"no stacks show whether {effect.subject.replace(':', ' ')} was busy with fork and exec"


def _dose(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    forks = timeline.rate("forks_total").between(effect.span).mean()
    system = [
        timeline.rate("cpu_system_seconds_total", cpu, within=effect.span).mean()
        for cpu in timeline.subjects("cpu_system_seconds_total", "cpu")
    ]
    in_kernel = sum(share for share in system if share == share)  # not NaN
    if forks > 0 and CHEAPEST <= in_kernel / forks <= DEAREST:
        full = next((it for it in effect.evidence if it.what == "cpu_system_ratio"), effect.evidence[0])
        yield Ground(
            kind="dose",
            says=(
                f"{forks:,.0f} forks a second and {in_kernel:.1f} cores busy in the kernel: "
                f"{in_kernel / forks * 1e6:,.0f} µs each, the cost of a fork, exec and exit"
            ),
            evidence=(cause.evidence[0], full),
        )
