"""What /metrics shows. No label is ever a cgroup, a process or a path, and each list of labels has a limit."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Mapping

from zombiescope import __version__
from zombiescope.agent.exposition import Family
from zombiescope.agent.metrics import Metrics, Own

MOST_ROOTS = 10  # root causes by name
MOST_LABELS = 100  # signs, controllers, files: there are fewer; outside members may add some
NAMED = ("unit", "nic", "controller", "hierarchy", "device", "node")  # subjects that are few; others by kind only
PREFIX = "zombiescope_"
PER_CORE = {  # as the lists of Metrics.cores have them
    "cpu_kernel_seconds": "Time that a core was busy in the kernel: system, interrupts, softirqs.",
    "cpu_saturated_seconds": "Time that a core was saturated in the kernel (sign saturated_core).",
}


def families(metrics: Metrics, own: Own, *, per_core: bool = False) -> Iterator[Family]:
    """Every metric, in a fixed order. What was never measured has no series."""
    node = (*_of_the_node(metrics), *_of_cores(metrics, per_core=per_core))
    for family in (*node, *_of_findings(metrics), *_of_the_agent(metrics, own)):
        if family.samples or family.histograms:
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
    made = it.families()
    yield _counter(
        "family_cgroups_made",
        "Cgroups made since the recorder started, by family (names without ids): the ten that leak most.",
        *(({"family": name}, count) for name, count, _ in made),
    )
    yield _gauge(
        "family_cgroups_dying",
        "Of these, removed and still held by the kernel.",
        *(({"family": name}, dying) for name, _, dying in made if dying is not None),
    )
    yield Family(
        PREFIX + "softirq_delay_seconds",
        "histogram",
        "For each second and each ksoftirqd or NAPI thread: how long it waited for the CPU in that second.",
        histograms=(({}, it.delays),) if it.delays.counts else (),
    )
    yield Family(
        PREFIX + "softirq_wait_seconds",
        "histogram",
        "Time from raise to run of network softirqs, by eBPF; beyond 8,000 softirqs a second it is timed in rounds.",
        histograms=tuple(({"kind": kind}, waits) for kind, waits in it.waits.items()),
    )
    yield Family(
        PREFIX + "workload_run_delay_seconds",
        "histogram",
        "Time from wake-up to run of threads, by eBPF, by class of workload; cgroup v2 only, and timed in rounds.",
        histograms=tuple(({"class": name}, delays) for name, delays in it.run_delays.items()),
    )
    yield _counter(
        "cpu_throttled_seconds",
        "Time that cgroups were throttled by their CPU quota, all cgroups added up.",
        *_known(it.throttled),
    )
    yield _counter(
        "workload_throttled_seconds",
        "The same by class: guaranteed, burstable and besteffort pods, other containers, system, user, other.",
        *(({"class": name}, seconds) for name, seconds in it.throttled_by_class.items()),
    )
    yield _counter(
        "workload_stalled_seconds",
        "Time in which tasks of cgroups with a memory limit waited for memory (PSI of cgroup v2), by class.",
        *(({"class": name}, seconds) for name, seconds in it.stalled_by_class.items()),
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


def _of_cores(it: Metrics, *, per_core: bool) -> Iterator[Family]:
    figures = it.last.get("figures", {})
    yield _gauge("cores", "Cores that were sampled.", *_known(len(figures.get("cores", ())) or None))
    yield _gauge(
        "cores_idle", "Cores' worth of time that was idle since the look before.", *_known(figures.get("cores_idle"))
    )
    yield _gauge(
        "core_kernel_ratio_max",
        "Largest share of ten seconds that one core was busy in the kernel, since the look before.",
        *_known(figures.get("kernel_ratio_max")),
    )
    saturated = sum(seconds > 0 for _, _, seconds in figures.get("cores", ()))
    yield _gauge(
        "cores_saturated",
        "Cores that were saturated in the kernel (sign saturated_core) for a second or more, since the look before.",
        *_known(saturated if figures.get("cores") else None),
    )
    yield _counter(
        "core_saturated_seconds",
        "Time that cores were saturated in the kernel (sign saturated_core), all cores added up.",
        *_known(it.saturated if it.looks else None),
    )
    if per_core:
        for place, (name, says) in enumerate(PER_CORE.items()):
            yield _counter(name, says, *(({"cpu": core}, seconds[place]) for core, seconds in it.cores.items()))


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
        "hours_shipped",
        "Hours for the fleet's store, by result: sent, given_up.",
        *(({"result": result}, times) for result, times in own.shipped.items()),
    )
    yield _gauge("hours_to_ship", "Hours that wait on this node for the fleet's store.", *_known(own.to_ship))
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


def _known(value: float | None) -> Iterator[tuple[dict[str, str], float]]:
    if value is not None:
        yield {}, float(value)


def _gauge(name: str, says: str, *samples: tuple[Mapping[str, str], float]) -> Family:
    return Family(PREFIX + name, "gauge", says, samples)


def _counter(name: str, says: str, *samples: tuple[Mapping[str, str], float]) -> Family:
    return Family(PREFIX + name, "counter", says, samples)
