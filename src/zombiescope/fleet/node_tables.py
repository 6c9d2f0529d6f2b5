"""What a node gives of one hour: small tables, made of its recording by the same checks that `diagnose` runs.

Raw samples stay on the node: stacks are summed up over ten minutes, functions over the hour. Everything is bounded, so
that a sick node sends no more than a healthy one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from zombiescope.cgroups.census import count
from zombiescope.core import Case, Finding, Span, harmless
from zombiescope.core.harm import Harm
from zombiescope.core.timeline import Floats, Timeline
from zombiescope.derived.cores import cores, in_modes, risen_together
from zombiescope.diagnosis.examine import examine
from zombiescope.fleet.hours import SECONDS, Hour
from zombiescope.fleet.node_profile import profile_tables
from zombiescope.fleet.schemas import COUNTS, LONGEST_TEXT, METRICS, TABLES, node_id

EVERY = 10  # seconds of one row of metrics
STRETCH = 300  # seconds in which restarts are counted
HOT = 0.5  # of a core's second in the kernel: what is less is not kept by the second
SATURATED = 0.9  # of a core's second in the kernel: nothing else runs there
MOST_UNITS = 400
ELSEWHERE = {"jobs", "crashes"}  # kinds of what broke that are in other tables
KERNEL = ("system", "irq", "softirq")
_RATES = {
    "pgscan_direct": "vmstat_pgscan_direct_total",
    "pgscan_kswapd": "vmstat_pgscan_kswapd_total",
    "pgsteal_direct": "vmstat_pgsteal_direct_total",
    "allocstall": "vmstat_allocstall_total",
    "compact_stall": "vmstat_compact_stall_total",
    "pgmajfault": "vmstat_pgmajfault_total",
    "throttled": "cgroup_throttled_seconds_total",
    "pressure_cpu": "pressure_cpu_waiting_seconds_total",
    "pressure_io": "pressure_io_waiting_seconds_total",
    "pressure_memory": "pressure_memory_waiting_seconds_total",
    "pressure_irq": "pressure_irq_stalled_seconds_total",
    "forks": "forks_total",
    "context_switches": "context_switches_total",
    "softnet_squeezed": "softnet_squeezed_total",
    "softnet_dropped": "softnet_dropped_total",
    "nic_resets": "nic_resets_total",
}
_LEVELS = {
    "procs_running": "procs_running",
    "procs_blocked": "procs_blocked",
    "memory_available_bytes": "memory_available_bytes",
    "slab_unreclaimable_bytes": "memory_slab_unreclaimable_bytes",
    "conntrack_entries": "conntrack_entries",
}


def node_tables(
    timeline: Timeline, hour: Hour, name: str, kernel: str, labels: Mapping[str, str], machine: str = ""
) -> dict[str, pa.Table]:
    """All tables of one hour; `timeline` is that hour's. Empty where the recording has nothing of it."""
    span = Span(max(timeline.span.start, hour.start), min(timeline.span.end, hour.end))
    if span.seconds <= 0:
        return {}
    case = examine(timeline, node=name, kernel=kernel)
    node = node_id(name, machine)
    seconds = _by_second(timeline, span)
    columns = {
        "nodes": _nodes(timeline, case, hour, span, labels),
        "units": _units(timeline, hour),
        "metrics": _metrics(timeline, hour, span, seconds),
        "hot_cores": _hot_cores(seconds),
        "events": _events(case, hour),
        "findings": _findings(case, hour, span),
        "jobs": _jobs(case, hour),
    }
    tables = {table: made(table, node, its) for table, its in columns.items()}
    return tables | {table: made(table, node, its) for table, its in profile_tables(timeline, hour, span).items()}


def made(table: str, node: int, columns: dict[str, Any]) -> pa.Table:
    shape = TABLES[table]
    many = len(next(iter(columns.values())))
    arrays = [pa.array(np.full(many, node, np.uint64))]
    for column in shape.schema.names[1:]:
        field = shape.schema.field(column)
        values = columns.get(column)
        if values is None:
            arrays.append(pa.nulls(many, field.type))
        elif pa.types.is_timestamp(field.type):
            arrays.append(pa.array((np.asarray(values, np.float64) * 1e6).astype(np.int64)).cast(field.type))
        elif pa.types.is_string(field.type):
            arrays.append(
                pa.array([None if it is None else harmless(it, most=LONGEST_TEXT - 1) for it in values], field.type)
            )
        else:
            arrays.append(pa.array(values, field.type, from_pandas=True))
    return pa.table(arrays, schema=shape.schema).slice(0, shape.most)


def _nodes(timeline: Timeline, case: Case, hour: Hour, span: Span, labels: Mapping[str, str]) -> dict[str, Any]:
    known = dict(labels)
    columns = {it: known.pop(it, None) for it in ("zone", "image", "instance_type")}
    return {
        "ts": [hour.start],
        "name": [case.node],
        "kernel": [case.kernel],
        **{name: [value] for name, value in columns.items()},
        "cores": [len(cores(timeline)) or None],
        "boot": [known.pop("boot", None)],
        "labels": [[(harmless(key), harmless(value)) for key, value in sorted(known.items())]],
        "watched_seconds": [span.seconds],
        "blind": [[it.sign for it in case.verdicts if it.state in ("blind", "broken")]],
    }


def _units(timeline: Timeline, hour: Hour) -> dict[str, Any]:
    """The state of each unit once, and each stretch in which it was restarted."""
    subjects = {*timeline.subjects("unit_active", "unit"), *timeline.subjects("unit_restarts_total", "unit")}
    enabled = {it.subject: it.value > 0 for it in timeline.latest("agent_enabled")}
    rows: list[tuple[Any, ...]] = []
    for subject in sorted(subjects)[:MOST_UNITS]:
        unit = subject.removeprefix("unit:")
        active, counted = timeline.series("unit_active", subject), timeline.series("unit_restarts_total", subject)
        runs = bool((active.values > 0).any()) if len(active) else None
        runs = True if len(counted) > 1 and counted.values[-1] > counted.values[0] else runs  # who restarts, runs
        rows.append((hour.start, unit, enabled.get(subject), runs, 0))
        if len(counted) < 2:
            continue
        edges = np.arange(hour.start, hour.end + 1, STRETCH, dtype=float)
        held = counted.sampled(np.clip(edges, counted.at[0], counted.until))
        for place, more in enumerate(np.diff(held).tolist()):
            if more > 0:
                rows.append((float(edges[place]), unit, enabled.get(subject), runs, round(more)))
    columns = list(zip(*rows, strict=True)) if rows else [()] * 5
    return dict(zip(("ts", "unit", "enabled", "active", "restarts"), map(list, columns), strict=True))


def _by_second(timeline: Timeline, span: Span) -> dict[str, Any]:
    """Of each core and second: the share in the kernel, in softirqs, and at work."""
    edges = np.arange(np.floor(span.start), np.ceil(span.end) + 1)
    found: dict[str, Any] = {"at": edges[:-1], "cpu": []}
    shares: dict[str, list[Floats]] = {"system": [], "softirq": [], "busy": []}
    for cpu in cores(timeline):
        modes = {
            mode: risen_together(timeline, f"cpu_{mode}_seconds_total", [cpu], edges)
            for mode in (*KERNEL, "user", "nice")
        }
        shares["system"].append(np.sum([modes[mode] for mode in KERNEL], axis=0))
        shares["softirq"].append(modes["softirq"])
        shares["busy"].append(np.sum(list(modes.values()), axis=0))
        found["cpu"].append(int(digits) if (digits := cpu.removeprefix("cpu:")).isdecimal() else -1)
    nothing = np.zeros((0, len(edges) - 1))
    return found | {mode: np.minimum(np.array(its), 1.0) if its else nothing for mode, its in shares.items()}


def _hot_cores(seconds: dict[str, Any]) -> dict[str, Any]:
    core, second = np.nonzero(seconds["system"] >= HOT)
    return {
        "ts": seconds["at"][second],
        "cpu": np.array(seconds["cpu"], np.int16)[core] if len(core) else [],
        **{name: seconds[name][core, second].round(2).astype(np.float32) for name in ("system", "softirq", "busy")},
    }


def _metrics(timeline: Timeline, hour: Hour, span: Span, seconds: dict[str, Any]) -> dict[str, Any]:
    edges = np.arange(hour.start, hour.end + 1, EVERY, dtype=float)
    kept = np.flatnonzero((edges[:-1] >= span.start - EVERY / 2) & (edges[1:] <= span.end + EVERY / 2))
    if not len(kept):
        return {"ts": []}
    edges = edges[kept[0] : kept[-1] + 2]
    found: dict[str, Any] = {"ts": edges[:-1]}
    for mode in ("user", "system", "idle", "iowait", "irq", "softirq", "steal"):
        found[f"cpu_{mode}"] = in_modes(timeline, (mode,), edges).round(2)
    for column, what in _RATES.items():
        if timeline.looked(what, 2):
            found[column] = risen_together(timeline, what, timeline.subjects(what), edges).round(3)
    for column, what in _LEVELS.items():
        if len(series := timeline.series(what)):
            found[column] = series.sampled(edges[1:])
    memory = next((it for it in count(timeline) if "memory" in it.controllers), None)
    if memory is not None:
        found["memcg_dying"] = memory.dying.sampled(edges[1:])
        found["memcg_known"] = found["memcg_dying"] + memory.live
    if len(seconds["cpu"]):
        _busiest(found, edges, seconds)
    for name in METRICS:
        if name in found and name in COUNTS:
            found[name] = [None if np.isnan(it) else round(it) for it in np.asarray(found[name], float).tolist()]
    return found


def _busiest(found: dict[str, Any], edges: Floats, seconds: dict[str, Any]) -> None:
    """The core with most kernel time in each ten seconds, and for how many seconds any core had nothing else."""
    of = np.clip(np.searchsorted(edges, seconds["at"], side="right") - 1, 0, len(edges) - 2)
    inside = (seconds["at"] >= edges[0] - 1) & (seconds["at"] < edges[-1])
    sums = np.zeros((len(seconds["cpu"]), len(edges) - 1))
    np.add.at(sums.T, of[inside], seconds["system"][:, inside].T)
    whole = np.maximum(np.bincount(of[inside], minlength=len(edges) - 1), 1)
    found["core_system_max"] = (sums.max(axis=0) / whole).round(2)
    found["core_system_max_cpu"] = np.array(seconds["cpu"], np.int16)[sums.argmax(axis=0)]
    full = (seconds["system"] >= SATURATED).any(axis=0) & inside
    found["core_saturated_seconds"] = np.bincount(of[full], minlength=len(edges) - 1).astype(float)


def _events(case: Case, hour: Hour) -> dict[str, Any]:
    """What broke on the node, when it was seen first. Jobs and restarts have tables of their own."""
    broke = [
        it
        for it in case.findings
        if {kind for kind, _ in it.harm.broken} - ELSEWHERE and hour.start <= it.span.start < hour.end
    ]
    return {
        "ts": [it.span.start for it in broke],
        "kind": [it.sign for it in broke],
        "subject": [it.subject for it in broke],
        "detail": [it.evidence[0].text or it.says for it in broke],
    }


def _findings(case: Case, hour: Hour, span: Span) -> dict[str, Any]:
    roots = case.root_causes
    unexplained = {it.finding for it in case.unexplained}

    def role(it: Finding) -> str:
        named: Iterable[tuple[str, object]] = (
            ("root", it in roots),
            ("noted", it in case.noted),
            ("unsure", it in case.unsure),
            ("past", it in case.past),
            ("unexplained", it in unexplained),
        )
        return next((name for name, does in named if does), "effect")

    every = list(case.findings)
    harms = [case.cost_of(it) if it in roots else it.harm for it in every]

    def figure(of: Callable[[Harm], Any]) -> list[Any]:
        return [of(harm) for harm in harms]

    return {
        "started": [min(max(it.span.start, span.start), hour.end) for it in every],
        "ended": [min(max(it.span.end, span.start), hour.end) for it in every],
        "sign": [it.sign for it in every],
        "subject": [it.subject for it in every],
        "role": [role(it) for it in every],
        "says": [it.says for it in every],
        "broken": figure(lambda it: sum(many for _, many in it.broken)),
        "waited_cores": figure(lambda it: it.waited_cores),
        "burnt_cores": figure(lambda it: it.burnt_cores),
        "held_bytes": figure(lambda it: it.held_bytes),
        "soon_seconds": figure(lambda it: it.soon_seconds),
    }


def _jobs(case: Case, hour: Hour) -> dict[str, Any]:
    """Jobs that died, as the node's logs say. What ended well is not in them: outcomes come from the scheduler."""
    died = [
        it
        for it in case.findings
        if hour.start <= it.span.end <= hour.end and any(kind == "jobs" for kind, _ in it.harm.broken)
    ]
    return {
        "started": [max(it.span.start, hour.start - 7 * 24 * SECONDS) for it in died],
        "ended": [it.span.end for it in died],
        "job": [it.subject for it in died],
        "kind": ["log"] * len(died),
        "outcome": ["failed"] * len(died),
        "detail": [it.says for it in died],
    }
