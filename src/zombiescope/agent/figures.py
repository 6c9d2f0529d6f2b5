"""Numbers for /metrics out of a timeline. What counts up is what was added after `since`: looks overlap."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from zombiescope.agent.histogram import SCHEMA, ZERO
from zombiescope.agent.metrics import BUCKETS, WAITS
from zombiescope.agent.workloads import class_of
from zombiescope.cgroups.census import count
from zombiescope.core import Case, Finding
from zombiescope.core.timeline import Floats, Series, Timeline
from zombiescope.derived.cores import IDLE, cores
from zombiescope.derived.histograms import added
from zombiescope.derived.run_delays import WAIT as RUN_DELAY
from zombiescope.derived.softirq_times import WAIT
from zombiescope.knowledge.kernel_messages import recognise

STEP = 10.0  # seconds: over this long the busiest core is measured; a queue's watchdog gives up after 5
FAMILIES = 10
UNITS = 50  # units that were restarted; each is a series forever
_KERNEL = ("system", "irq", "softirq")
_NETWORK = ("NET_RX", "NET_TX")
_SERVES = re.compile(r"thread:(?:ksoftirqd/\d+|napi/.+)", re.DOTALL)
_REASONS = {
    "nic_poll_starved": "poll_starved",
    "nic_tx_stuck": "transmit_stalled",
    "nic_keep_alive": "keep_alive",
    "nic_health": "no_answer",
}


def figures(timeline: Timeline, case: Case, since: float) -> dict[str, Any]:
    """Plain lists and numbers, as they go through a pipe. What was not read is missing or None, never 0."""
    start, end = max(since, timeline.span.start), timeline.span.end
    return {
        "cgroups": [[name, it.live, it.dead] for it in count(timeline) for name in it.controllers],
        "stat_read": {it.subject.removeprefix("file:"): it.value for it in timeline.latest("stat_read_seconds")},
        "families": _families(timeline),
        "kernel_ratio_max": _busiest(timeline, start, end),
        "cores": _cores(timeline, case, start, end),
        "cores_idle": _idle(timeline, start),
        "saturated_seconds": sum(_within(it, start, end) for it in case.findings if it.sign == "saturated_core"),
        "softirq_delay": _delays(timeline, since),
        "softirq_wait": _waits(timeline, since),
        "run_delay": _run_delays(timeline, since),
        "restarts": _restarts(timeline),
        "resets": [it for finding in case.findings if finding.sign == "driver_reset" for it in _resets(finding, since)],
        "throttled_seconds": _rise(timeline, "cgroup_throttled_seconds_total", start),
        "throttled_by_class": _by_class(timeline, "cgroup_throttled_seconds_total", start),
        "stalled_by_class": _by_class(timeline, "cgroup_memory_stall_seconds_total", start),
        "memory_waiting_seconds": _rise(timeline, "pressure_memory_waiting_seconds_total", start),
    }


def _busiest(timeline: Timeline, start: float, end: float) -> float | None:
    """The largest share of ten seconds that one core was busy in the kernel."""
    most = float("nan")
    for cpu in cores(timeline):
        modes = [timeline.series(f"cpu_{mode}_seconds_total", cpu) for mode in _KERNEL]
        first, last = max(start, modes[0].span.start), min(end, *(it.until for it in modes))
        steps = max(int((last - first) / STEP), 1)
        edges: Floats = np.linspace(first, last, steps + 1)
        if last > first:
            busy = np.sum([np.diff(it.sampled(edges)) for it in modes], axis=0)
            most = np.fmax(most, np.fmax.reduce(busy / np.diff(edges)))
    return None if np.isnan(most) else round(float(np.clip(most, 0.0, 1.0)), 4)


def _within(finding: Finding, start: float, end: float) -> float:
    return max(min(finding.span.end, end) - max(finding.span.start, start), 0.0)


def _rise(timeline: Timeline, what: str, start: float) -> float | None:
    """Of all subjects together; None if nobody read it."""
    subjects = timeline.subjects(what)
    if not subjects:
        return None if not timeline.looked(what) else 0.0
    return sum(_risen(timeline.series(what, it), start) for it in subjects)


def _risen(counter: Series, start: float) -> float:
    """From what it was at `start`, or at first, to the last that is known: the next look begins there."""
    if not len(counter):
        return 0.0
    first = max(int(np.searchsorted(counter.at, start, side="right")) - 1, 0)
    return max(float(counter.values[-1] - counter.values[first]), 0.0)


def _delays(timeline: Timeline, since: float) -> dict[str, Any] | None:
    """For each second, and each thread that serves a core's packets: how long it waited for the CPU in that second."""
    what = "thread_run_delay_seconds_total"
    if not timeline.looked(what, times=2):
        return None
    every: list[Floats] = [np.zeros(0)]
    for thread in filter(_SERVES.fullmatch, timeline.subjects(what, "thread")):
        rate = timeline.rate(what, thread)
        seconds = rate.values * np.diff(rate.at, append=rate.until)
        every.append(seconds[(rate.at >= since) & ~np.isnan(seconds)])
    return observed(np.concatenate(every))


def observed(seconds: Floats) -> dict[str, Any]:
    """As agent.histogram adds them up, in both kinds of buckets."""
    counts = np.bincount(np.searchsorted(np.array(BUCKETS), seconds, side="left"), minlength=len(BUCKETS) + 1)
    long = seconds[seconds > ZERO]
    fine, many = np.unique(np.ceil(np.log2(long) * (1 << SCHEMA)).astype(np.int64), return_counts=True)
    return {
        "counts": counts.tolist(),
        "sum": float(seconds.sum()),
        "fine": np.stack([fine, many], axis=1).tolist(),
        "zeros": len(seconds) - len(long),
    }


def _waits(timeline: Timeline, since: float) -> dict[str, Any]:
    """How long network softirqs waited, as far as eBPF timed them, by kind."""
    found = {}
    for kind in _NETWORK:
        named = [it for it in timeline.subjects(WAIT, "softirq") if it.startswith(f"softirq:{kind}/")]
        if counted := _counted(timeline, WAIT, named, since):
            found[kind] = counted
    return found


def _run_delays(timeline: Timeline, since: float) -> dict[str, Any]:
    """How long threads waited to run, as far as eBPF timed them, by class of workload."""
    classes: dict[str, list[str]] = {}
    for subject in timeline.subjects(RUN_DELAY):
        kind, _, path = subject.partition(":")
        classes.setdefault(class_of(path) if kind == "cgroup" else "other", []).append(subject)
    every = {name: _counted(timeline, RUN_DELAY, subjects, since) for name, subjects in sorted(classes.items())}
    return {name: counted for name, counted in every.items() if counted}


def _counted(timeline: Timeline, what: str, subjects: list[str], since: float) -> dict[str, Any] | None:
    """What eBPF timed of these subjects, in the buckets of WAITS."""
    counts, total = added(timeline, what, subjects, since)
    if not counts:
        return None
    places = np.searchsorted(np.array(WAITS), [2 * it / 1e6 for it in counts], side="left")
    sums = np.bincount(places, list(counts.values()), len(WAITS) + 1)
    return {"counts": sums.astype(np.int64).tolist(), "sum": total}


def _families(timeline: Timeline) -> list[list[Any]]:
    """The families of cgroups of which most are dying, then of which most were made: name, made, dying or None."""
    removed = {it.subject: it.value for it in timeline.latest("cgroup_removals_total")}
    freed = {it.subject: it.value for it in timeline.latest("cgroup_releases_total")}
    known = timeline.looked("cgroup_releases_total")
    rows: list[tuple[float, float, str]] = []
    for it in timeline.latest("cgroup_births_total"):
        left = max(removed.get(it.subject, 0.0) - freed.get(it.subject, 0.0), 0.0) if known else 0.0
        rows.append((left, it.value, it.subject.removeprefix("family:")))
    return [[name, made, left if known else None] for left, made, name in sorted(rows, reverse=True)[:FAMILIES]]


def _cores(timeline: Timeline, case: Case, start: float, end: float) -> list[list[Any]]:
    """Number of each core, its seconds in the kernel, its seconds saturated."""
    full = [it for it in case.findings if it.sign == "saturated_core"]
    found = []
    for cpu in cores(timeline):
        busy = sum(_risen(timeline.series(f"cpu_{mode}_seconds_total", cpu), start) for mode in _KERNEL)
        saturated = sum(_within(it, start, end) for it in full if it.subject == cpu)
        found.append([cpu.removeprefix("cpu:"), round(busy, 3), round(saturated, 3)])
    return found


def _idle(timeline: Timeline, start: float) -> float | None:
    """Cores' worth of idle time; None if it was not sampled twice."""
    every = [timeline.series(f"cpu_{mode}_seconds_total", cpu) for cpu in cores(timeline) for mode in IDLE]
    seconds = max((float(it.at[-1] - max(start, it.at[0])) for it in every if len(it)), default=0.0)
    return round(sum(_risen(it, start) for it in every) / seconds, 3) if seconds > 0 else None


def _by_class(timeline: Timeline, what: str, start: float) -> dict[str, float]:
    """By how many seconds it rose in each class of workload."""
    totals: dict[str, float] = {}
    for subject in timeline.subjects(what):
        name = class_of(subject.removeprefix("cgroup:"))
        totals[name] = totals.get(name, 0.0) + _risen(timeline.series(what, subject), start)
    return totals


def _restarts(timeline: Timeline) -> dict[str, float]:
    """Units that systemd restarted, most first; instances of one template together."""
    totals: dict[str, float] = {}
    for reading in timeline.latest("unit_restarts_total"):
        name = re.sub(r"@.*(?=\.)", "@", reading.subject.removeprefix("unit:"))
        totals[name] = totals.get(name, 0.0) + reading.value
    most = sorted((it for it in totals.items() if it[1] > 0), key=lambda it: -it[1])
    return dict(most[:UNITS])


def _resets(finding: Finding, since: float) -> Iterator[list[Any]]:
    """Device, reason, when the episode began, how often: an episode may grow from look to look."""
    times = dict(finding.harm.broken).get("resets", 0)
    if times and finding.span.end >= since:
        yield [finding.subject.removeprefix("nic:"), _reason(finding), round(finding.span.start, 1), times]


def _reason(finding: Finding) -> str:
    kinds = {message.kind for it in finding.evidence if it.text and (message := recognise(it.text))}
    return next((reason for kind, reason in _REASONS.items() if kind in kinds), "unknown" if kinds else "counted")
