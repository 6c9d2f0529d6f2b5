"""One hour of a 96-core node, every second, with the stacks of its busy cores: examined in seconds, in bounded memory.

The hour is made up as columns, as a recorder would have written it: a healthy node, with one core that is busy for some
seconds in a walk through cgroups. The peer is one pass of numpy over all its columns.
"""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute  # whoever reads a recording from disk has imported it by now

from zombiescope.core import Span
from zombiescope.core.timeline import Series, Timeline
from zombiescope.diagnosis.examine import examine
from zombiescope.probes.proc_stat import MODES
from zombiescope.probes.softirqs import KINDS
from zombiescope.recorder.sample_reader import Columns, SampleReader
from zombiescope.recorder.schemas import SCHEMAS
from zombiescope.recorder.segment import TableOfStacks, samples_of

CORES, SECONDS, HZ = 96, 3600, 49
BUSY = 0.3  # of the cores' time: each busy moment is a sample
T0 = 1_794_000_000.0
WALKED, WALK = 39, slice(1000, 1008)  # the core and the seconds
CPU, MEMORY = 2.0, 300e6  # what examining it may take


def ratios() -> Iterator[tuple[str, float, float, str]]:
    """In a process of its own, so that its memory is its own."""
    done = subprocess.run([sys.executable, "-m", "bench.examining"], capture_output=True, text=True, check=True)
    cpu, memory, findings, samples = (float(word) for word in done.stdout.split())
    detail = f"{cpu:.2f} s of CPU, {memory / 1e6:.0f} MB, {findings:.0f} findings, {samples / 1e6:.1f} million samples"
    yield "examining one hour of 96 cores against 2 s", cpu / CPU, 1.0, detail
    yield "its memory, the columns included, against 300 MB", memory / MEMORY, 1.0, detail


@dataclass(slots=True)
class _Part:
    """Two minutes of samples, made when they are asked for, as a segment on disk is read."""

    number: int

    @property
    def span(self) -> Span:
        return Span(T0 + 120 * self.number, T0 + 120 * (self.number + 1))

    def stacks(self) -> tuple[TableOfStacks, bool]:
        walk = ("start", "read", "vfs_read", "seq_read_iter", "memory_stat_show", "css_rstat_flush")
        others = [("main", f"work_{number}", "do_syscall_64", f"leaf_{number}") for number in range(1, 3000)]
        columns = [np.arange(3000), [walk, *others], np.array([4] + [2] * 2999)]
        schema = SCHEMAS["stacks"]
        arrays = [pa.array(it, kind) for it, kind in zip(columns, schema.types, strict=True)]
        return TableOfStacks(pa.table(arrays, schema)), True

    def samples(self, columns: Sequence[str]) -> Columns:
        """No weights: all were taken at one rate."""
        return samples_of(pa.table({name: self._column(name) for name in columns if name != "weight"}))

    def _column(self, name: str) -> npt.NDArray[Any] | pa.DictionaryArray:
        rows = int(120 * HZ * CORES * BUSY)
        made = np.random.default_rng(self.number)
        if name == "at":
            return ((T0 + 120 * self.number + np.sort(made.random(rows)) * 120) * 1e9).astype(np.int64)
        if name == "comm":
            return pa.DictionaryArray.from_arrays(np.zeros(rows, np.int32), ["kubelet"])
        if name == "stack":
            return np.where(self._walks(), 0, made.integers(1, 3000, rows)).astype(np.uint64)
        return np.where(self._walks(), WALKED, made.integers(0, CORES, rows)) if name == "cpu" else np.full(rows, 812)

    def _walks(self) -> npt.NDArray[np.bool_]:
        """The samples of one core, of all that are busy, in the seconds of the walk."""
        second = np.asarray(self._column("at")) / 1e9 - T0
        one_core = np.arange(len(second)) % round(CORES * BUSY) == 0
        walks: npt.NDArray[np.bool_] = one_core & (second >= WALK.start) & (second < WALK.stop)
        return walks


def hour() -> Timeline:
    every = T0 + np.arange(SECONDS, dtype=float)
    made = np.random.default_rng(1)
    series, looks = [], {}

    def add(what: str, subject: str, values: npt.NDArray[np.float64], at: npt.NDArray[np.float64] = every) -> None:
        until = float(at[-1])
        series.append(Series(what=what, subject=subject, at=at, values=values, until=until, sources=("/proc/x",)))
        if what not in looks:
            seen = np.ones(len(at))
            looks[what] = Series(what="looked", subject=what, at=at, values=seen, until=until, sources=("",))

    shares = {"user": 0.2, "system": 0.08, "softirq": 0.02, "idle": 0.7}
    for core in range(CORES):
        for mode in MODES:
            share = np.full(SECONDS, shares.get(mode, 0.0))
            if core == WALKED:
                share[WALK] = 0.99 if mode == "system" else 0.0
            add(f"cpu_{mode}_seconds_total", f"cpu:{core}", np.cumsum(share * made.uniform(0.95, 1.0, SECONDS)))
    slower = every[::2]
    for core in range(CORES):
        for kind in KINDS:
            add(
                f"softirqs_{kind.lower()}_total",
                f"cpu:{core}",
                np.cumsum(made.integers(0, 900, len(slower))).astype(np.float64),
                slower,
            )
        for what in ("processed", "dropped", "squeezed"):
            add(
                f"softnet_{what}_total",
                f"cpu:{core}",
                np.cumsum(made.integers(0, 2, len(slower))).astype(np.float64),
                slower,
            )
        for what, step in (("run", 0.004), ("run_delay", 0.002)):
            add(f"thread_{what}_seconds_total", f"thread:ksoftirqd/{core}", np.cumsum(made.random(SECONDS) * step))
    for what in ("samples_total", "kernel_symbols"):
        add(what, "node", np.arange(SECONDS, dtype=float) + 1)
    return Timeline(series, looks, SampleReader([_Part(number) for number in range(SECONDS // 120)], hz=HZ))


def _main() -> None:
    timeline = hour()
    started = time.process_time()
    case = examine(timeline)
    cpu = time.process_time() - started
    # What it had to make up samples is not what reading them costs; both are counted, so the figure is a ceiling.
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    samples = (SECONDS // 120) * int(120 * HZ * CORES * BUSY)
    print(cpu, memory, len(case.findings), samples)
    assert {it.sign for it in case.findings} >= {"saturated_core", "cgroup_walker"}
    os._exit(0)


if __name__ == "__main__":
    _main()
