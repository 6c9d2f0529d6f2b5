"""On a full node one cgroup weighs so much more than another that the other hardly runs.

Why it hurts: weights are relative to their siblings, and kernel threads and system units are among those of the pods.
    With 262,144 shares for pods, whatever has the default of 1,024 gets a 250th of the cores as soon as the pods take
    all they can: probes time out, kernel threads come late, and each pod by itself looks fine.
False alarms: batch work is meant to come last, and gets a low weight on purpose: who has less than the default is
    left out. A node that is not full harms nobody, whatever the weights are.
References: Documentation/admin-guide/cgroup-v2.rst, cpu.weight; Documentation/scheduler/sched-design-CFS.rst.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zombiescope.cgroups.owners import whose
from zombiescope.core import Finding, Reading, Span, harmless
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Series, Timeline
from zombiescope.derived.cores import busy_cores, cores

WEIGHT, USED, COUNT = "cgroup_cpu_weight", "cgroup_cpu_used_seconds_total", "cgroups_weighed"
DELAY, GROUP = "process_run_delay_seconds_total", "process_in_cgroup"
# Scale: ratios of weights and shares of the node's cores: both grow with it.
NEEDS = (COUNT, DELAY)
TIMES = 10.0  # times the other's weight: kubelet's own classes differ by less
MOSTLY = 0.4  # of the node's cores used by the heavy one: else others take the time
FULL = 0.9  # of the node's cores busy: on a node with idle cores no weight matters
STEP = 2.0  # seconds for which the idle time of all cores is added up
LASTS = 5.0  # seconds without an idle core: two samples of the weights and of who waits
BRIDGE = 10.0  # seconds: a short pause of the heavy one does not make two of it
WAITING = 0.2  # of the time: a process that waits less is not starved
DEFAULT = 1.0  # who weighs less was meant to come last
NAMED = 3  # waiting processes named in a sentence


def find(timeline: Timeline) -> Iterator[Finding]:
    many = len(cores(timeline))
    weights = {it.subject.removeprefix("cgroup:"): it for it in timeline.latest(WEIGHT)}
    for full in _full(timeline, many) if many and weights else ():
        waiting = _waiting(timeline, full)
        for path, weight in weights.items():
            used = timeline.rate(USED, f"cgroup:{path}", within=full).mean()
            if not used >= MOSTLY * many:  # not known (NaN) where CPU time is counted elsewhere
                continue
            light = [it for it in waiting if _weight_beside(path, it[1], weights) * TIMES <= weight.value]
            if light:
                yield _finding(timeline, full, path, weight, light, used, weights)


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    known = timeline.latest(WEIGHT)
    if not known:
        return "no cgroup has a weight", tuple(timeline.latest(COUNT))
    most = max(known, key=lambda it: it.value)
    return f"{len(known)} weights; the largest is {most.value:,.0f} times the default", (most,)


_Waiting = tuple[str, str, float, Reading]  # process, its cgroup, cores' worth of waiting, where that is read


def _waiting(timeline: Timeline, span: Span) -> list[_Waiting]:
    found = []
    for subject in timeline.subjects(DELAY, "process"):
        rate, group = timeline.rate(DELAY, subject).between(span), timeline.series(GROUP, subject)
        if len(rate) and len(group) and (waits := float(np.nan_to_num(rate.mean()))) >= WAITING:
            found.append((subject, group.latest.text.rstrip("/"), waits, group.latest))
    return sorted(found, key=lambda it: -it[2])


def _weight_beside(path: str, other: str, weights: dict[str, Reading]) -> float:
    """What weighs against `path` for a process in `other`: its cgroup beside it, or itself where it has none there.

    Infinite where it is inside of `path`, where it was meant to come last, or where that is not known.
    """
    if f"{other}/".startswith(f"{path}/"):
        return float("inf")
    parent = path.rpartition("/")[0]
    if not f"{other}/".startswith(f"{parent}/"):
        return float("inf")
    beside = other.removeprefix(parent).split("/")[1:2]
    if not beside or not beside[0]:
        return DEFAULT
    known = weights.get(f"{parent}/{beside[0]}")
    return known.value if known is not None and known.value >= DEFAULT else float("inf")


def _full(timeline: Timeline, many: int) -> list[Span]:
    """When the node had no idle core."""
    idle = "cpu_idle_seconds_total"
    edges = timeline.look_times(idle, STEP)
    if len(edges) < 2:
        return []
    busy = Series(
        what="cpu_busy_cores",
        subject="node",
        at=edges[:-1],
        values=busy_cores(timeline, edges),
        until=float(edges[-1]),
        sources=("/proc/stat",),
    )
    return [it.span for it in busy.runs(above=FULL * many, lasting=LASTS, bridging=BRIDGE)]


def _finding(
    timeline: Timeline,
    span: Span,
    path: str,
    weight: Reading,
    light: list[_Waiting],
    used: float,
    weights: dict[str, Reading],
) -> Finding:
    least = min(_weight_beside(path, it[1], weights) for it in light)
    names = ", ".join(harmless(it[0].removeprefix("process:")) for it in light[:NAMED])
    return Finding(
        subject=f"cgroup:{path}",
        span=span,
        says=(
            f"weighs {weight.value / least:,.0f} times as much as what waits beside it and uses {used:.1f} cores of a "
            f"full node: {names} waited ({whose(timeline, '', f'cgroup:{path}')})"
        ),
        evidence=(weight, timeline.series(USED, f"cgroup:{path}").latest, *(it[3] for it in light[:NAMED])),
        culprit=f"cgroup:{path}",
        harm=Harm(parts=tuple(Part(figure="waited", who=it[0], amount=it[2], span=span) for it in light)),
    )
