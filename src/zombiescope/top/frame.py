"""One moment of a node in figures, as the first lines of the screen show it: of a timeline, live or recorded."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from zombiescope.cgroups.census import count
from zombiescope.core.timeline import Floats, Timeline
from zombiescope.derived.cores import MODES

OVER = 2.0  # seconds: what a figure is the mean of, or two intervals of its probe
MOST_TASKS = 60  # processes that are listed
SOFTIRQ_WAIT = "softirq_wait_seconds"
THREAD_WAIT = "thread_run_delay_seconds_total"
CENSUS = (
    *("cgroups_known", "cgroup_hierarchy", "cgroup_folders", "cgroup_version", "cgroup_v2_controllers"),
    *("cgroup_descendants", "cgroup_dying_descendants", "cgroup_subsys", "cgroup_dying_subsys"),
)
CPU = tuple(
    f"cpu_{mode}_seconds_total" for mode in ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
)
# All that a frame needs; what else a recording holds is not parsed for it.
NEEDS = (
    *CPU,
    *CENSUS,
    *("procs_running", "procs_blocked", "memory_total_bytes", "memory_available_bytes", SOFTIRQ_WAIT, THREAD_WAIT),
    *("process_user_seconds_total", "process_system_seconds_total", "process_run_delay_seconds_total"),
    *("process_in_cgroup", "pressure_cpu_waiting_seconds_total", "pressure_memory_waiting_seconds_total"),
    *("pressure_io_waiting_seconds_total", "cgroup_throttled_seconds_total"),
)


@dataclass(frozen=True, slots=True)
class Core:
    """Shares of one core's time, by mode."""

    number: int
    user: float
    system: float
    irq: float
    softirq: float
    steal: float

    @property
    def kernel(self) -> float:
        return self.system + self.irq + self.softirq

    @property
    def busy(self) -> float:
        return min(self.kernel + self.user + self.steal, 1.0)


@dataclass(frozen=True, slots=True)
class Task:
    """A process: cores' worth of CPU time, and of waiting for a core (its first thread)."""

    name: str  # trainer[29966]
    cpu: float
    waited: float | None
    cgroup: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """None stands for what was not read."""

    at: float
    cores: tuple[Core, ...] = ()  # the worst first
    running: float | None = None
    blocked: float | None = None
    memory_free: float | None = None  # share
    dying: float | None = None  # memory cgroups
    live: float | None = None
    growth: float | None = None  # dying cgroups an hour
    softirq_wait: float | None = None  # seconds: the longest in the last sample
    softirq_who: str = ""  # NET_RX on cpu 1
    pressure: dict[str, float] = field(default_factory=dict)  # cpu, memory, io: share of time
    tasks: tuple[Task, ...] = ()  # the busiest first
    throttled: tuple[tuple[str, float], ...] = ()  # cgroups by cores' worth of throttled time
    blind: tuple[str, ...] = ()  # why something above was not read

    def core(self, number: int) -> Core | None:
        return next((it for it in self.cores if it.number == number), None)


def frame_of(timeline: Timeline, at: float) -> Frame:
    cores = _cores(timeline, at)
    wait, who = _softirq(timeline, at)
    dying, live, growth = _census(timeline)
    return Frame(
        at=at,
        cores=tuple(sorted(cores, key=lambda it: (-(it.kernel + it.steal), -it.user, it.number))),
        running=_value(timeline, "procs_running", "node", at),
        blocked=_value(timeline, "procs_blocked", "node", at),
        memory_free=_share(timeline, at),
        dying=dying,
        live=live,
        growth=growth,
        softirq_wait=wait,
        softirq_who=who,
        pressure={
            name: rate
            for name in ("cpu", "memory", "io")
            if (rate := _rate(timeline, f"pressure_{name}_waiting_seconds_total", "node", at)) is not None
        },
        tasks=_tasks(timeline, at),
        throttled=_throttled(timeline, at),
        blind=_blind(timeline),
    )


def _edges(timeline: Timeline, what: str, at: float) -> tuple[float, float] | None:
    """The last look until `at`, and one at least OVER seconds before it, or the one before the last."""
    return timeline.once(_edges_of, what, at)


def _edges_of(timeline: Timeline, what: str, at: float) -> tuple[float, float] | None:
    times = timeline.look_times(what)
    last = int(np.searchsorted(times, at, side="right")) - 1
    if last < 1:
        return None
    first = min(int(np.searchsorted(times, times[last] - OVER + 0.05, side="right")) - 1, last - 1)
    return (float(times[max(first, 0)]), float(times[last]))


def _rate(timeline: Timeline, what: str, subject: str, at: float) -> float | None:
    """How fast a counter rose, a second; None if it was not read twice."""
    edges = _edges(timeline, what, at)
    series = timeline.series(what, subject)
    if edges is None or not len(series) or series.until < edges[0]:
        return None
    first, last = (_held(series.at, series.values, it) for it in edges)
    if np.isnan(first) or np.isnan(last):
        return None
    return max(last - first, 0.0) / (edges[1] - edges[0])


def _held(at: Floats, values: Floats, when: float) -> float:
    place = int(at.searchsorted(when, side="right")) - 1
    return float(values[place]) if place >= 0 else float("nan")


def _value(timeline: Timeline, what: str, subject: str, at: float) -> float | None:
    series = timeline.series(what, subject)
    value = _held(series.at, series.values, at) if len(series) else float("nan")
    return None if np.isnan(value) else value


def _cores(timeline: Timeline, at: float) -> list[Core]:
    found = []
    for subject in timeline.subjects("cpu_idle_seconds_total", "cpu"):
        shares = [
            sum(_rate(timeline, f"cpu_{part}_seconds_total", subject, at) or 0.0 for part in parts)
            for parts in MODES.values()
        ]
        if _rate(timeline, "cpu_idle_seconds_total", subject, at) is not None:
            found.append(Core(int(subject.removeprefix("cpu:")), *(min(it, 1.0) for it in shares)))
    return found


def _share(timeline: Timeline, at: float) -> float | None:
    free, total = (_value(timeline, f"memory_{it}_bytes", "node", at) for it in ("available", "total"))
    return free / total if free is not None and total else None


def _census(timeline: Timeline) -> tuple[float | None, float | None, float | None]:
    """Memory comes first, where it could be counted."""
    for it in count(timeline):
        if len(it.dying):
            return it.dead, it.live, it.growth_per_hour if len(it.dying) > 1 else None
    return None, None, None


def _softirq(timeline: Timeline, at: float) -> tuple[float | None, str]:
    """As timed by eBPF; else how long softirq threads waited for their core, as a share of each second."""
    worst, who = None, ""
    for subject in timeline.subjects(SOFTIRQ_WAIT, "softirq"):
        series = timeline.series(SOFTIRQ_WAIT, subject)
        recent = series.values[(series.at <= at) & (series.at > at - 2 * OVER - 1)]
        if len(recent) and (worst is None or float(recent.max()) > worst):
            kind, _, cpu = subject.removeprefix("softirq:").rpartition("/")
            worst, who = float(recent.max()), f"{kind} on cpu {cpu}"
    if worst is not None or timeline.looked(SOFTIRQ_WAIT):
        return worst or 0.0, who
    for subject in timeline.subjects(THREAD_WAIT):
        rate = _rate(timeline, THREAD_WAIT, subject, at) if subject.startswith("thread:ksoftirqd") else None
        if rate is not None and (worst is None or rate > worst):
            worst, who = rate, f"{subject.removeprefix('thread:')} of each second"
    return worst, who


def _tasks(timeline: Timeline, at: float) -> tuple[Task, ...]:
    found = []
    for subject in timeline.subjects("process_user_seconds_total", "process"):
        user, system = (_rate(timeline, f"process_{it}_seconds_total", subject, at) for it in ("user", "system"))
        cpu = (user or 0.0) + (system or 0.0)
        if cpu > 0.004:
            found.append((cpu, subject))
    found.sort(key=lambda it: (-it[0], it[1]))
    return tuple(
        Task(
            subject.removeprefix("process:"),
            cpu,
            _rate(timeline, "process_run_delay_seconds_total", subject, at),
            _cgroup(timeline, subject),
        )
        for cpu, subject in found[:MOST_TASKS]
    )


def _cgroup(timeline: Timeline, subject: str) -> str:
    series = timeline.series("process_in_cgroup", subject)
    return series.latest.text if len(series) else ""


def _throttled(timeline: Timeline, at: float) -> tuple[tuple[str, float], ...]:
    what = "cgroup_throttled_seconds_total"
    rates = [(it.removeprefix("cgroup:"), _rate(timeline, what, it, at) or 0.0) for it in timeline.subjects(what)]
    return tuple(sorted((it for it in rates if it[1] > 0.001), key=lambda it: -it[1])[:20])


def _blind(timeline: Timeline) -> tuple[str, ...]:
    """Why something that the screen shows was not read."""
    said: dict[str, None] = {}
    for what in NEEDS:
        looks = timeline.looks(what)
        if len(looks) and looks.values[-1] == 0:
            last = looks.latest
            said[f"{last.source}: {last.text}"] = None
    return tuple(said)
