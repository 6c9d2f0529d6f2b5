"""Samples in columns, wherever they came from: when, on which core, by whom, in which stack, and what each stands for.

Every reader makes Samples (of a recording, perf.data, the text of `perf script`, folded stacks, pprof), and every
question is asked of them (by a sign, a law, a heatmap, a flame graph, a difference, an export): any source can be seen
in any way.

Times are integers of nanoseconds: sums and borders are exact. Names are worked out when they are first asked for: a
heatmap needs none, and they are what takes longest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from zombiescope.core.model import Reading, Span

Ints = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
Wanted = Callable[[Sequence[str]], bool]  # whether a stack is meant, by the names of its functions, outermost first
UNITS = ("samples", "nanoseconds")
COLUMNS = ("at", "cpu", "tid", "who", "stack", "weight")
SOURCE = "$ perf record -a -g"
SECOND = 1_000_000_000  # nanoseconds


class Who(NamedTuple):
    """Whose time a sample is."""

    pid: int  # -1 where unknown, 0 is the idle task: interrupts that came while nobody ran
    comm: str  # the thread's name
    cgroup: str = ""  # its path; empty where unknown


class Function(NamedTuple):
    """A place in a program, by name."""

    name: str
    kernel: bool
    module: str = ""  # the file or kernel module it is in; empty where unknown

    @property
    def spelled(self) -> str:
        """As the kernel's symbol table has it: the name of a kernel module follows, "nf_hook [nf_tables]"."""
        return f"{self.name} [{self.module}]" if self.kernel and self.module else self.name


class Origin(NamedTuple):
    """What samples were read from: the line that `info`, `view` and `flame` say first."""

    format: str = ""  # "perf.data", "pprof", …
    producer: str = ""  # what wrote it, where that is known: "perf 6.1.187 on node7, Linux 6.1.0"
    measure: str = ""  # the event or value that was chosen, with its unit: "inuse_space in bytes"
    others: tuple[str, ...] = ()  # the events or values that were left out
    option: str = ""  # of the command line, that chooses another: "--value"


@dataclass(frozen=True, kw_only=True, eq=False)
class Frames:
    """Distinct stacks: stack i is functions[of[starts[i] : starts[i + 1]]], outermost first."""

    functions: Sequence[Function]  # distinct
    of: npt.NDArray[np.int32]
    starts: Ints

    def __len__(self) -> int:
        return len(self.starts) - 1

    def __getitem__(self, stack: int) -> list[Function]:
        return [self.functions[it] for it in self.of[self.starts[stack] : self.starts[stack + 1]].tolist()]

    @cached_property
    def _spelled(self) -> list[str]:
        return [it.spelled for it in self.functions]

    def names(self, stack: int) -> tuple[str, ...]:
        """The functions of one stack by name, outermost first: the program's own, then the kernel's."""
        spelled = self._spelled
        return tuple([spelled[it] for it in self.of[self.starts[stack] : self.starts[stack + 1]].tolist()])

    def only(self, stacks: Ints) -> Frames:
        """Some of the stacks, numbered anew in this order; functions that are in none of them are left out."""
        lengths = np.diff(self.starts)[stacks]
        starts = np.append(0, np.cumsum(lengths))
        of = self.of[np.repeat(self.starts[stacks] - starts[:-1], lengths) + np.arange(starts[-1])]
        used = np.zeros(len(self.functions), np.bool_)
        used[of] = True
        functions = [self.functions[it] for it in np.flatnonzero(used).tolist()]
        return Frames(functions=functions, of=(np.cumsum(used, dtype=np.int32) - 1)[of], starts=starts)


@dataclass(frozen=True, kw_only=True, eq=False)
class Samples:
    """Samples, sorted by time. All columns have one row a sample."""

    at: Ints  # nanoseconds of `clock`
    cpu: npt.NDArray[np.int32]  # -1 where unknown
    tid: npt.NDArray[np.int32]  # -1 where unknown
    who: npt.NDArray[np.int32]  # place in `whos`
    stack: npt.NDArray[np.int32]  # distinct stacks, numbered from zero
    weight: Ints  # what each stands for, in `unit`
    whos: Sequence[Who]
    idle: Mask  # of each distinct stack: the core had nothing to do. Judged by its leaf alone: interrupts are work
    name: Callable[[], Frames]  # works the names out; ask `frames`
    name_some: Callable[[Ints], Frames] | None = None  # the same, but only these stacks: all others are left empty
    # If set, only when, where and how idle was read: this gives the samples of some times (from, before) with the rest.
    in_full: Callable[[Sequence[tuple[int, int]]], Samples] | None = None
    unit: str = "samples"
    clock: str = "machine"  # or "unix": since 1970; "none": without any time
    hz: float = 0.0  # how often a busy core is sampled; 0 where unknown
    label: str = ""  # what it is of: a file's name
    notes: tuple[str, ...] = field(default=())  # what could not be read, was lost or left out, each in one line
    origin: Origin = field(default=Origin())
    parted: int | None = None  # a difference, if set: what was before this time is its baseline

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
        """Samples of cores at work."""
        return np.logical_not(self.idle[self.stack])

    @cached_property
    def at_seconds(self) -> npt.NDArray[np.float64]:
        """When each was, in the seconds that findings and spans are in."""
        return self.at / SECOND

    @cached_property
    def pid(self) -> Ints:
        """The process of each."""
        return np.array([who.pid for who in self.whos], np.int64)[self.who]

    @property
    def _second(self) -> float:
        """How much of `unit` is one second on a core; without end where that is not known."""
        return SECOND if self.unit == "nanoseconds" else self.hz or float("inf")

    @property
    def weight_seconds(self) -> npt.NDArray[np.float64]:
        """Time on a core that each stands for."""
        return self.weight / self._second

    @property
    def seconds(self) -> float:
        """Time on a core that all of them stand for."""
        return int(self.weight.sum()) / self._second

    def only(self, rows: slice | Mask | Ints) -> Samples:
        """Some of the samples; stacks and names are shared, and numbered as before."""
        columns: dict[str, Any] = {name: getattr(self, name)[rows] for name in COLUMNS}
        return replace(self, **columns, name=lambda: self.frames, name_some=None)

    def within(self, span: Span) -> Samples:
        return self.only(inside(self.at, span))

    def where(self, wanted: Wanted) -> Samples:
        """Those whose stack is wanted; each distinct stack is judged once."""
        good = np.zeros(len(self.idle), np.bool_)
        good[self.stack] = True
        for stack in np.flatnonzero(good).tolist():
            good[stack] = wanted(self.frames.names(stack))
        return self.only(good[self.stack])

    def hottest(self) -> tuple[str, ...]:
        """The names of the stack in which most time was spent."""
        return self.frames.names(int(np.bincount(self.stack, self.weight).argmax())) if len(self) else ()

    def reading(self, subject: str, what: str = "sampled_seconds") -> Reading:
        """As evidence: how long, and the stack that most of it was spent in, in the words of a flame graph."""
        from zombiescope.core.model import Reading

        return Reading(
            what=what,
            subject=subject,
            value=round(self.seconds, 4),
            at=float(self.at_seconds[0]) if len(self) else 0.0,
            source=SOURCE,
            text=";".join(self.hottest()),
        )


def inside(at: Ints, span: Span) -> Mask:
    """Which times are within a span, its ends included. Compared in seconds: a span may end with a sample."""
    seconds = at / SECOND
    return (seconds >= span.start) & (seconds <= span.end)


def no_samples() -> Samples:
    """Of a recording without stacks."""
    columns: dict[str, Any] = {
        name: np.empty(0, np.int64 if name in ("at", "weight") else np.int32) for name in COLUMNS
    }
    nothing = Frames(functions=[], of=np.empty(0, np.int32), starts=np.zeros(1, np.int64))
    return Samples(
        **columns, whos=[], idle=np.empty(0, np.bool_), name=lambda: nothing, unit="nanoseconds", clock="unix"
    )
