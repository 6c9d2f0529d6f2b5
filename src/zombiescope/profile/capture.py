"""Samples in columns, from any source: time, core, process, stack, and the weight of each.

Every reader makes a Capture (from a recording, perf.data, the text of `perf script`, folded stacks, pprof), and every
view is made from one (heatmap, flame graph, difference, export): any source can be shown in any way.

Times are integers in nanoseconds: sums and borders are exact. Names are resolved when first needed: a heatmap needs
none, and they take longest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
CLOCKS = ("unix", "machine", "none")  # since 1970, since the machine booted, or without times
UNITS = ("samples", "nanoseconds")
COLUMNS = ("at", "cpu", "tid", "who", "stack", "weight")


class Who(NamedTuple):
    """The thread and cgroup that a sample belongs to."""

    pid: int  # -1 if unknown; 0 is the idle task, also for interrupts while the core was idle
    comm: str  # the thread's name
    cgroup: str = ""  # its path; empty where unknown


class Function(NamedTuple):
    """A place in a program, by name."""

    name: str
    kernel: bool
    module: str = ""  # the file or kernel module it is in; empty where unknown


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Frames:
    """Distinct stacks: stack i is functions[of[starts[i] : starts[i + 1]]], outermost first."""

    functions: Sequence[Function]  # distinct
    of: npt.NDArray[np.int32]
    starts: Ints

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, stack: int) -> list[Function]:
        return [self.functions[it] for it in self.of[self.starts[stack] : self.starts[stack + 1]].tolist()]


@dataclass(frozen=True, kw_only=True, eq=False)
class Capture:
    """Samples, sorted by time. All columns have one row a sample."""

    at: Ints  # nanoseconds of `clock`
    cpu: npt.NDArray[np.int32]  # -1 where unknown
    tid: npt.NDArray[np.int32]  # -1 where unknown
    who: npt.NDArray[np.int32]  # place in `whos`
    stack: npt.NDArray[np.int32]  # distinct stacks, numbered from 0
    weight: Ints  # in `unit`
    whos: Sequence[Who]
    idle: Mask  # of each distinct stack: the core was idle. Decided by the leaf alone: interrupts are work
    name: Callable[[], Frames]  # resolves the names; use `frames`
    unit: str = "samples"
    clock: str = "machine"
    hz: float = 0.0  # how often a busy core is sampled; 0 where unknown
    label: str = ""  # the source: a file's name
    notes: tuple[str, ...] = field(default=())  # what could not be read, was lost or left out, each in one line

    def __len__(self) -> int:
        return len(self.at)

    @cached_property
    def frames(self) -> Frames:
        return self.name()

    @property
    def start(self) -> int:
        return int(self.at[0]) if len(self) else 0

    @property
    def end(self) -> int:
        """Just after the last sample."""
        return int(self.at[-1]) + 1 if len(self) else 0

    @cached_property
    def busy(self) -> Mask:
        """Samples of busy cores."""
        found: Mask = ~self.idle[self.stack]
        return found

    def only(self, rows: slice | Mask | Ints) -> Capture:
        """Some of the samples; stacks and names are shared, and numbered as before."""
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in COLUMNS}
        return replace(self, **columns, name=lambda: self.frames)


@dataclass(frozen=True, slots=True, kw_only=True)
class Chosen:
    """Which samples to use; None means no filter. Idle samples are never used."""

    start: int | None = None  # nanoseconds of the capture's clock; from then on …
    end: int | None = None  # … and before then
    cpu: int | None = None
    pid: int | None = None
    comm: str | None = None
    cgroup: str | None = None  # this one, and all below it

    def rows(self, capture: Capture) -> Ints:
        """The indices of the chosen samples."""
        first = 0 if self.start is None else int(np.searchsorted(capture.at, self.start))
        last = len(capture) if self.end is None else int(np.searchsorted(capture.at, self.end))
        part = slice(first, max(first, last))
        good = capture.busy[part].copy()
        if self.cpu is not None:
            good &= capture.cpu[part] == self.cpu
        if self.pid is not None or self.comm is not None or self.cgroup is not None:
            wanted = np.fromiter((self._means(who) for who in capture.whos), np.bool_, len(capture.whos))
            good &= wanted[capture.who[part]]
        found: Ints = np.flatnonzero(good) + first
        return found

    def _means(self, who: Who) -> bool:
        return (
            (self.pid is None or who.pid == self.pid)
            and (self.comm is None or who.comm == self.comm)
            and (self.cgroup is None or who.cgroup == self.cgroup or who.cgroup.startswith(f"{self.cgroup}/"))
        )


EVERYTHING = Chosen()
