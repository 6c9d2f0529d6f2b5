"""A large node over hours, in columns: every number is one that a file of the kernel shows, at the pace of its probe.

Signs know nothing of it. `texts.py` writes the same columns in the kernel's own formats, and a test reads them back by
the probes' own parsers: so hours of 192 cores can be made without writing and parsing each line of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from tests.controls.pieces import Process

from zombiescope.conformance._quiet import BEGAN, quiet_node
from zombiescope.core import Span
from zombiescope.core.timeline import Series, Timeline
from zombiescope.members.rooms import healthy
from zombiescope.probes.proc_stat import MODES
from zombiescope.probes.softirqs import KINDS
from zombiescope.recorder.rows import in_order, with_unknown
from zombiescope.recorder.sample_reader import SampleReader
from zombiescope.recorder.segment import TablePart, as_batch
from zombiescope.recorder.stack_series import GIVES as STACK_SERIES

Floats = npt.NDArray[np.float64]
T0 = BEGAN
HZ = 49
SEGMENT = 120  # seconds, as a recorder cuts them
MEMORY = 2 << 40  # bytes
# Of the recorded healthy node: its own stacks and log, and its cgroups, which are v1.
_NOT_QUIET = {"kernel_log", *STACK_SERIES, "cgroup_hierarchy", "cgroups_known", "cgroup_folders", "cgroup_version"}
_NOT_QUIET |= {"cgroup_dying_descendants", "cgroup_descendants"}
_TICK = 100  # a second, in /proc/stat and /proc/PID/stat
_PACES = {"proc_stat": 1, "thread_delay": 1, "processes": 5}
_PACES |= dict.fromkeys(("softirqs", "softnet_stat", "vmstat", "pressure", "cpu_throttling"), 2)


class Node:
    """Healthy and nearly idle until a load is put on it: a base of agents, timers and a little network traffic."""

    def __init__(self, *, cores: int = 192, seconds: int = 3600, seed: int = 0) -> None:
        self.cores, self.seconds = cores, seconds
        self.made = np.random.default_rng(seed)
        self.times = {pace: T0 + np.arange(0.0, seconds + 1, pace) for pace in (1, 2, 5, 60)}
        self.columns: dict[str, dict[str, tuple[Floats, Floats]]] = {}
        self.texts: dict[tuple[str, str], str] = {}
        self.lines: list[tuple[float, str]] = []  # of the kernel's log
        self.unseen: set[str] = set()  # nothing looked for these
        self._step = (0, 0.0)  # from which second on the clock was set by how much
        self._shares: dict[str, Floats] = {}
        self._sampled: dict[str, list[npt.NDArray[np.int64]]] = {"at": [], "cpu": [], "who": [], "stack": []}
        self._whos: dict[str, int] = {}
        self._stacks: dict[str, int] = {}
        every = slice(None)
        self.spend(every, user=0.03, system=0.01, softirq=0.002)
        self.forks(20.0)
        self.packets(every, 200.0)
        self.pressed(cpu=0.002)
        self.faults(20_000.0)
        self.node("memory_total_bytes", float(MEMORY))
        self.node("memory_available_bytes", MEMORY * 0.5)
        self.node("memory_slab_bytes", MEMORY * 0.01)
        self.node("memory_percpu_bytes", MEMORY * 0.001)
        self.node("cpus_possible", float(cores))
        self.node("uptime_seconds", 60 * 86_400.0)
        self.dying(np.full(seconds // 60 + 1, 12.0), live=300.0)
        for cpu in range(cores):
            self.thread(f"ksoftirqd/{cpu}", run=0.0005, delay=0.0002)

    def noisy(self, mean: float | Floats, count: int | tuple[int, ...], spread: float = 0.3) -> Floats:
        """Around a mean, never below zero; `spread` is the standard deviation as a share of it."""
        drawn = self.made.standard_normal(count)
        drawn *= spread
        drawn += 1.0
        found: Floats = np.maximum(drawn, 0.0) * mean
        return found

    def spend(
        self, cores: slice | Sequence[int], *, when: slice = slice(None), spread: float = 0.3, **modes: float
    ) -> None:
        """What these cores do from now on, or in some seconds: a share of the time in each mode; the rest is idle."""
        for mode in MODES:
            if mode not in self._shares:
                self._shares[mode] = np.zeros((self.cores, self.seconds))
            part = self._shares[mode][cores, when]
            self._shares[mode][cores, when] = self.noisy(modes[mode], part.shape, spread) if mode in modes else 0.0

    def forks(self, rate: float, running: float = 2.0) -> None:
        self.counter("forks_total", "node", rate)
        self.counter("context_switches_total", "node", 2_000.0 * self.cores)
        self.gauge("procs_running", "node", np.round(self.noisy(running, self.seconds + 1)) + 1)
        self.gauge("procs_blocked", "node", np.zeros(self.seconds + 1))

    def packets(self, cores: slice | Sequence[int], rate: float, *, squeezed: float = 0.0) -> None:
        for cpu in np.arange(self.cores)[cores]:
            subject = f"cpu:{cpu}"
            self.counter("softnet_processed_total", subject, rate, pace=2)
            self.counter("softnet_dropped_total", subject, 0.0, pace=2)
            self.counter("softnet_squeezed_total", subject, squeezed, pace=2)
            for kind in KINDS:
                often = {"NET_RX": rate / 4, "TIMER": 200.0, "SCHED": 150.0, "RCU": 100.0}.get(kind, 0.0)
                self.counter(f"softirqs_{kind.lower()}_total", subject, often, pace=2)

    def pressed(self, **shares: float) -> None:
        """PSI: of each second, how much somebody waited (cpu, memory, io), or all (memory_full, io_full, irq_full)."""
        for kind in ("cpu", "memory", "io", "memory_full", "io_full", "irq_full"):
            name, _, full = kind.partition("_")
            what = f"pressure_{name}_{'stalled' if full else 'waiting'}_seconds_total"
            rate = np.minimum(self.noisy(shares.get(kind, 0.0), self.seconds // 2), 1.0)
            self.counter(what, "node", rate, pace=2, unit=1e-6)

    def faults(self, minor: float, **others: float) -> None:
        """/proc/vmstat: `minor` faults a second, and whatever else is counted there (pgmajfault=…)."""
        counted = (it for it in healthy("probes")["vmstat"].GIVES if it.startswith("vmstat_"))
        rates = {it: others.get(it[7:-6], 0.0) for it in counted} | {"vmstat_pgfault_total": minor}
        for what, rate in rates.items():
            self.counter(what, "node", rate, pace=2)

    def thread(self, name: str, *, run: float | Floats, delay: float | Floats) -> None:
        self.counter("thread_run_seconds_total", f"thread:{name}", run, unit=1e-9)
        self.counter("thread_run_delay_seconds_total", f"thread:{name}", delay, unit=1e-9)

    def process(self, it: Process) -> None:
        for mode, rate in (("user", it.user), ("system", it.system)):
            self.counter(f"process_{mode}_seconds_total", it.subject, rate, pace=5, unit=1 / _TICK)
        self.counter("process_run_delay_seconds_total", it.subject, it.delay, pace=5, unit=1e-9)
        self.gauge("process_cpu", it.subject, np.full(self.seconds // 5 + 1, float(it.cpu)), pace=5)
        if it.children:
            self.counter("process_children_seconds_total", it.subject, it.children, pace=5, unit=1 / _TICK)
        if it.priority:
            value = float(it.priority.rpartition(" ")[2])
            self.gauge("process_realtime_priority", it.subject, np.full(self.seconds // 5 + 1, value), pace=5)
            self.texts["process_realtime_priority", it.subject] = it.priority

    def throttled(self, path: str, *, quota: float, share: float, stopped: float) -> None:
        """A cgroup with a quota of so many cores: throttled in a share of its periods, so many seconds a second."""
        subject = f"cgroup:{path}"
        self.counter("cgroup_periods_total", subject, 10.0, pace=2, spread=0.0)
        self.counter("cgroup_throttled_periods_total", subject, np.minimum(self._rates(10 * share, 2), 10.0), pace=2)
        self.counter("cgroup_throttled_seconds_total", subject, stopped, pace=2, unit=1e-6)
        self.gauge("cgroup_cpu_quota_cores", subject, np.full(self.seconds // 2 + 1, quota), pace=2)

    def dying(self, memory: npt.NDArray[Any], *, live: float) -> None:
        """cgroup.stat of v2: the dying ones of the memory controller, once a minute; others keep none."""
        for name in ("memory", "cpu", "pids"):
            self.gauge("cgroup_dying_subsys", f"controller:{name}", memory * (name == "memory"), pace=60)
            self.gauge("cgroup_subsys", f"controller:{name}", np.full(len(memory), live), pace=60)

    def node(self, what: str, value: float) -> None:
        """Something of the whole node that does not change."""
        self.gauge(what, "node", np.full(self.seconds // 60 + 1, value), pace=60)

    def gauge(self, what: str, subject: str, values: npt.NDArray[Any], *, pace: int = 1) -> None:
        self.columns.setdefault(what, {})[subject] = (self.times[pace], values)

    def counter(
        self,
        what: str,
        subject: str,
        rate: float | Floats,
        *,
        pace: int = 1,
        unit: float = 1.0,
        spread: float = 0.3,
        first: float = 1000.0,
    ) -> None:
        """Rises by `rate` a second, in whole units, from what it had reached before."""
        rates = self._rates(rate, pace, spread) if isinstance(rate, float) else rate
        summed = np.concatenate([[0.0], np.cumsum(rates * pace)]) + first * unit
        self.columns.setdefault(what, {})[subject] = (self.times[pace], np.floor(summed / unit + 1e-6) * unit)

    def _rates(self, rate: float, pace: int, spread: float = 0.3) -> Floats:
        return self.noisy(rate, self.seconds // pace, spread) if rate else np.zeros(self.seconds // pace)

    def sampled(self, who: str, stack: str, cpu: int, share: float | Floats) -> None:
        """Stacks of one process on one core: of each second a share, at HZ samples a second."""
        many = np.floor(np.broadcast_to(share, self.seconds) * HZ + self.made.random(self.seconds)).astype(np.int64)
        at = np.repeat(np.arange(self.seconds), many) + self.made.random(int(many.sum()))
        self._sampled["at"].append(((T0 + at) * 1e9).astype(np.int64))
        for name, value in (
            ("cpu", cpu),
            ("who", self._whos.setdefault(who, len(self._whos))),
            ("stack", self._stacks.setdefault(stack, len(self._stacks) + 1)),
        ):
            self._sampled[name].append(np.full(len(at), value))

    def cores_columns(self) -> None:
        """/proc/stat: what was spent, in ticks; what is more than a core's time is not spent."""
        modes = [self._shares[mode] for mode in MODES]
        total = np.sum(modes, axis=0)
        fits = 1 / np.maximum(total, 1.0)
        for mode, share in zip(MODES, modes, strict=True):
            spent = share * fits if mode != "idle" else 1.0 - total * fits
            ticks = np.zeros((self.cores, self.seconds + 1))
            np.cumsum(spent * _TICK, axis=1, out=ticks[:, 1:])
            np.floor(ticks + 1e-6, out=ticks)
            ticks /= _TICK
            what = f"cpu_{mode}_seconds_total"
            self.columns[what] = {f"cpu:{cpu}": (self.times[1], ticks[cpu]) for cpu in range(self.cores)}

    def steps(self, after: int, seconds: float) -> None:
        """The clock is set, or the node sleeps: counters go on as if nothing had happened."""
        self._step = (after, seconds)

    def _clock(self, at: Floats) -> Floats:
        after, seconds = self._step
        return np.where(at > T0 + after, at + seconds, at) if seconds else at

    def _shown(self, at: Floats) -> tuple[Floats, npt.NDArray[np.int64] | None]:
        """By the node's clock, and in which order a reader of the recording takes them."""
        if not self._step[1]:
            return at, None
        order = in_order(self._clock(at))
        return self._clock(at)[order], order

    def timeline(self) -> Timeline:
        """As a reader of the recording would give it; what no load speaks of is as on the recorded healthy node."""
        self.cores_columns()
        end = float(self._clock(self.times[1]).max())
        series, looks = [], {}
        quiet = quiet_node()
        for what in _all_whats():
            if what in self.unseen:
                continue
            mine = self.columns.get(what, {})
            at = self._shown(next(iter(mine.values()))[0])[0] if mine else np.array([T0, end])
            looks[what] = _series("looked", what, at, np.ones(len(at)), end)
            for subject, (times, values) in mine.items():
                times, order = self._shown(times)
                values = values if order is None else with_unknown(what, values, order)
                text = self.texts.get((what, subject), "")
                series.append(
                    _series(what, subject, times, values, end, dict.fromkeys(range(len(times) * bool(text)), text))
                )
            if not mine and what not in _NOT_QUIET:
                series += [
                    _series(
                        what, it, np.array([T0]), quiet.series(what, it).values[-1:], end, _last_text(quiet, what, it)
                    )
                    for it in quiet.subjects(what)
                ]
        lines = sorted(self.lines)
        if lines:
            said = {place: text for place, (_, text) in enumerate(lines)}
            times = T0 + np.array([at for at, _ in lines])
            series.append(_series("kernel_log", "node", times, np.full(len(lines), 4.0), end, said))
        reader = self._reader() if "samples_total" not in self.unseen else None
        for what in ("samples_total", "kernel_symbols"):
            if what not in self.unseen:
                looks[what] = _series("looked", what, self.times[1], np.ones(self.seconds + 1), end)
                series.append(_series(what, "node", self.times[1], np.arange(self.seconds + 1) + 1.0, end))
        return Timeline(series, looks, reader)

    def _reader(self) -> SampleReader | None:
        if not self._stacks:
            return None
        columns = {name: np.concatenate(parts) for name, parts in self._sampled.items()}
        order = np.argsort(columns["at"], kind="stable")
        columns = {name: column[order] for name, column in columns.items()}
        pids = np.array([int(it.rpartition("[")[2].rstrip("]")) for it in self._whos])
        names = pa.DictionaryArray.from_arrays(
            pa.array(columns["who"], pa.int32()), pa.array([it.rpartition("[")[0] for it in self._whos])
        )
        nobody = np.zeros(len(order), np.uint64)
        table = {"at": columns["at"], "cpu": columns["cpu"], "pid": pids[columns["who"]], "tid": pids[columns["who"]]}
        samples = pa.table({**table, "comm": names, "cgroup": nobody, "stack": columns["stack"].astype(np.uint64)})
        frames = [it.split(";") for it in self._stacks]
        rows = {"stack": list(self._stacks.values()), "frames": frames, "kernel_frames": [len(it) - 1 for it in frames]}
        known = pa.Table.from_batches([as_batch("stacks", rows)])
        edges = np.arange(0, self.seconds + SEGMENT, SEGMENT)
        places = np.searchsorted(columns["at"], ((T0 + edges) * 1e9).astype(np.int64))
        return SampleReader(
            [
                TablePart(samples.slice(first, last - first), known, Span(T0 + start, T0 + start + SEGMENT))
                for start, first, last in zip(edges.tolist(), places[:-1].tolist(), places[1:].tolist(), strict=False)
            ],
            hz=HZ,
        )


@cache
def _all_whats() -> tuple[str, ...]:
    return (*(what for probe in healthy("probes").values() for what in probe.GIVES), *STACK_SERIES)


def _last_text(timeline: Timeline, what: str, subject: str) -> dict[int, str]:
    text = timeline.series(what, subject).latest.text
    return {0: text} if text else {}


def _series(
    what: str, subject: str, at: Floats, values: npt.NDArray[Any], until: float, texts: Mapping[int, str] | None = None
) -> Series:
    return Series(
        what=what, subject=subject, at=at, values=values, until=until, sources=("/proc/generated",), texts=texts or {}
    )
