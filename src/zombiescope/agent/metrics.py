"""What /metrics shows: the figures of the last look, counters since the agent started, and its own cost.

No label is ever a cgroup, a process or a path, and each list of labels has a limit.
"""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from zombiescope import __version__
from zombiescope.agent.exposition import Family

BUCKETS = (0.001, 0.005, 0.01, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)  # seconds
MOST_UNITS = 50  # that were ever restarted: a series each, kept until the agent ends
MOST_RESETS = 50  # devices and reasons
MOST_ROOTS = 10  # root causes by name
MOST_LABELS = 100  # signs, controllers, files: there are fewer; outside members may add some
NAMED = ("unit", "nic", "controller", "hierarchy", "device", "node")  # subjects that are few; others by kind only
PREFIX = "zombiescope_"


@dataclass(slots=True)
class Metrics:
    """All that is counted; `look` adds what one look found."""

    looks: int = 0
    failed_looks: int = 0
    last_look: float = 0.0
    last: Mapping[str, Any] = field(default_factory=dict)  # the last look
    events: dict[str, int] = field(default_factory=lambda: {"began": 0, "changed": 0, "ended": 0})
    saturated: float = 0.0
    throttled: float | None = None
    memory_waiting: float | None = None
    delay_counts: list[int] | None = None
    delay_sum: float = 0.0
    restarts: dict[str, float] = field(default_factory=dict)
    resets: dict[tuple[str, str], int] = field(default_factory=dict)
    _episodes: dict[tuple[str, float], int] = field(default_factory=dict)

    def look(self, look: Mapping[str, Any]) -> None:
        figures = look["figures"]
        self.looks += 1
        self.last, self.last_look = look, look["span"][1]
        self.saturated += figures["saturated_seconds"]
        self.throttled = _added(self.throttled, figures["throttled_seconds"])
        self.memory_waiting = _added(self.memory_waiting, figures["memory_waiting_seconds"])
        if figures["softirq_delay"] is not None:
            before = self.delay_counts or [0] * (len(BUCKETS) + 1)
            self.delay_counts = [old + new for old, new in zip(before, figures["softirq_delay"]["counts"], strict=True)]
            self.delay_sum += figures["softirq_delay"]["sum"]
        for unit, times in figures["restarts"].items():
            if unit in self.restarts or len(self.restarts) < MOST_UNITS:
                self.restarts[unit] = times
        self._reset(figures["resets"], look["span"][0])

    def _reset(self, resets: list[list[Any]], start: float) -> None:
        """An episode may grow from look to look: only what is new counts."""
        for device, reason, began, times in resets:
            key = (device, reason)
            if key in self.resets or len(self.resets) < MOST_RESETS:
                before = self._episodes.get((device, began), 0)
                self.resets[key] = self.resets.get(key, 0) + max(times - before, 0)
                self._episodes[device, began] = max(times, before)
        self._episodes = {key: times for key, times in self._episodes.items() if key[1] >= start - 3600}


def _added(total: float | None, new: float | None) -> float | None:
    return total if new is None else (total or 0.0) + new


@dataclass(frozen=True, slots=True, kw_only=True)
class Own:
    """What the agent costs, and how its parts are."""

    cpu_seconds: float
    memory: Mapping[str, int]  # bytes, by process
    recorder_up: bool
    recorder_starts: int
    every: float  # seconds between looks, as stretched by the budget
    lost: Mapping[str, int]  # events that could not be delivered, by target
    pushed: Mapping[str, int] = field(default_factory=dict)  # profiles handed over for a target
    not_pushed: Mapping[str, int] = field(default_factory=dict)  # and given up
    remedies: Mapping[str, int] = field(default_factory=dict)  # the agent's own fixes, by result


def families(metrics: Metrics, own: Own) -> Iterator[Family]:
    """Every metric, in a fixed order. What was never measured has no series."""
    for family in (*_of_the_node(metrics), *_of_findings(metrics), *_of_the_agent(metrics, own)):
        if family.samples or family.buckets:
            yield family


def _of_the_node(it: Metrics) -> Iterator[Family]:
    figures = it.last.get("figures", {})
    cgroups = figures.get("cgroups", [])[:MOST_LABELS]
    yield _gauge(
        "cgroups",
        "Cgroups that the kernel keeps, live and dying, by controller.",
        *(({"controller": name, "state": "live"}, live) for name, live, _ in cgroups),
        *(({"controller": name, "state": "dying"}, dying) for name, _, dying in cgroups),
    )
    yield _gauge(
        "cgroup_stat_read_seconds",
        "Time that one read of the root cgroup's statistics file took; sampled every ten minutes.",
        *(({"file": name}, value) for name, value in list(figures.get("stat_read", {}).items())[:MOST_LABELS]),
    )
    yield _gauge(
        "core_kernel_ratio_max",
        "Largest share of ten seconds that one core was busy in the kernel, since the look before.",
        *_known(figures.get("kernel_ratio_max")),
    )
    yield _counter(
        "core_saturated_seconds",
        "Time that cores were saturated in the kernel (sign saturated_core), all cores added up.",
        *_known(it.saturated if it.looks else None),
    )
    yield Family(
        PREFIX + "softirq_delay_seconds",
        "histogram",
        "For each second and each ksoftirqd or NAPI thread: how long it waited for the CPU in that second.",
        (),
        tuple(_cumulative(it.delay_counts)) if it.delay_counts else (),
        it.delay_sum,
    )
    yield _counter(
        "cpu_throttled_seconds",
        "Time that cgroups were throttled by their CPU quota, all cgroups added up.",
        *_known(it.throttled),
    )
    yield _counter(
        "memory_waiting_seconds",
        "Time in which some task of the node waited for memory (PSI, memory some).",
        *_known(it.memory_waiting),
    )
    yield _counter(
        "unit_restarts",
        "Restarts of a unit as systemd counts them; instances of a template together.",
        *(({"unit": unit}, times) for unit, times in it.restarts.items()),
    )
    yield _counter(
        "nic_resets",
        "Resets of a network card since the agent started.",
        *(({"device": device, "reason": reason}, times) for (device, reason), times in it.resets.items()),
    )


def _of_findings(it: Metrics) -> Iterator[Family]:
    counts: Mapping[str, Mapping[str, int]] = it.last.get("counts", {})
    states: Mapping[str, str] = it.last.get("states", {})
    signs = [name for name in states if "/" not in name][:MOST_LABELS]
    yield _gauge(
        "finding",
        "Findings of a sign within the last window; severity by what they cost; info: no harm.",
        *(
            ({"sign": sign, "severity": grade}, counts.get(sign, {}).get(grade, 0))
            for sign in signs
            for grade in ("critical", "warning", "info")
            if grade == "warning" or counts.get(sign, {}).get(grade)
        ),
    )
    harm: Mapping[str, float] = it.last.get("harm_cores", {})
    yield _gauge(
        "harm_cores",
        "Cores' worth of time that root causes of a sign cost: waited by others, and burnt.",
        *(({"sign": sign}, harm.get(sign, 0.0)) for sign in signs),
    )
    roots = [found for found in it.last.get("findings", []) if found["root"]][:MOST_ROOTS]
    soon: dict[str, float] = {}
    for found in roots:
        if found["harm"]["soon_seconds"] is not None:
            soon[found["sign"]] = min(soon.get(found["sign"], float("inf")), found["harm"]["soon_seconds"])
    yield _gauge(
        "trouble_seconds",
        "Time until what grows reaches its limit at the present pace, the soonest of a sign.",
        *(({"sign": sign}, seconds) for sign, seconds in soon.items()),
    )
    named = dict.fromkeys((found["sign"], subject_label(found["subject"]), found["severity"]) for found in roots)
    yield Family(
        PREFIX + "root_cause",
        "info",
        "Root causes in the last window. Units, cards and controllers by name, processes and cgroups by kind.",
        tuple(({"sign": sign, "subject": subject, "severity": grade}, 1.0) for sign, subject, grade in named),
    )
    blind = sum(state in ("blind", "broken") for state in states.values())
    yield _gauge(
        "blind_signs", "Signs that could not look, or failed, at the last look.", *_known(blind if states else None)
    )


def subject_label(subject: str) -> str:
    """Never a process, a cgroup or a path: those would be a new series each time."""
    kind = subject.partition(":")[0]
    return subject if kind in NAMED else kind


def _of_the_agent(it: Metrics, own: Own) -> Iterator[Family]:
    yield _gauge(
        "last_look_timestamp_seconds", "End of the time that was last examined.", *_known(it.last_look or None)
    )
    yield _counter(
        "looks", "Examinations by result.", ({"result": "done"}, it.looks), ({"result": "failed"}, it.failed_looks)
    )
    yield _gauge("look_cpu_seconds", "CPU time of the last examination.", *_known(it.last.get("cpu_seconds")))
    yield _gauge("look_interval_seconds", "Time between examinations, as the budget allows.", ({}, own.every))
    yield _counter("events", "Events written.", *(({"event": kind}, times) for kind, times in it.events.items()))
    yield _counter(
        "events_undelivered",
        "Events and alerts that a target did not take in time; they are on disk all the same.",
        *(({"target": target}, times) for target, times in own.lost.items()),
    )
    yield _counter(
        "profiles_pushed",
        "Profiles for a target, delivered or still waiting.",
        *(({"target": target}, times) for target, times in own.pushed.items()),
    )
    yield _counter(
        "profiles_undelivered",
        "Profiles that a target refused or did not take in time.",
        *(({"target": target}, times) for target, times in own.not_pushed.items()),
    )
    yield _counter(
        "remedies",
        "Fixes that the agent made by itself, by result.",
        *(({"result": result}, times) for result, times in own.remedies.items()),
    )
    yield _gauge("recorder_up", "Whether the recorder runs.", ({}, float(own.recorder_up)))
    yield _counter("recorder_starts", "Starts of the recorder by this agent.", ({}, own.recorder_starts))
    yield _counter("own_cpu_seconds", "CPU time of the agent, its recorder and its examiner.", ({}, own.cpu_seconds))
    yield _gauge(
        "own_memory_bytes",
        "Memory of the agent's processes, shared pages in part (PSS).",
        *(({"process": name}, size) for name, size in own.memory.items()),
    )
    yield Family(
        PREFIX + "build",
        "info",
        "Version of zombiescope and of Python.",
        (({"version": __version__, "python": platform.python_version()}, 1.0),),
    )


def _cumulative(counts: list[int]) -> Iterator[tuple[float, int]]:
    total = 0
    for bound, count in zip((*BUCKETS, float("inf")), counts, strict=True):
        total += count
        yield bound, total


def _known(value: float | None) -> Iterator[tuple[dict[str, str], float]]:
    if value is not None:
        yield {}, float(value)


def _gauge(name: str, says: str, *samples: tuple[Mapping[str, str], float]) -> Family:
    return Family(PREFIX + name, "gauge", says, samples)


def _counter(name: str, says: str, *samples: tuple[Mapping[str, str], float]) -> Family:
    return Family(PREFIX + name, "counter", says, samples)
