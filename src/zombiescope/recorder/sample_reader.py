"""Samples out of recorded rows, from disk and from memory alike: all of them, or no more than a question needs.

Twelve hours of two cores at 99 Hz are 8.5 million samples, a busy hour of 96 cores at 49 Hz 17 million. So each
segment is read, filtered, numbered and let go before the next: in the end a sample takes 32 bytes. Stacks are few, so
they are judged first: a segment without any that is wanted is not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from zombiescope.core import Span, UserError, harmless
from zombiescope.core.samples import SECOND, Ints, Mask, Samples, Wanted, Who, inside
from zombiescope.core.timeline import Timeline
from zombiescope.derived.gaps import core_gaps
from zombiescope.recorder.distinct_stacks import CodedStacks, DistinctStacks, Ids, Stacks
from zombiescope.recorder.rows import Words

if TYPE_CHECKING:
    from zombiescope.recorder.stack_names import StackNames

ALWAYS = Span(float("-inf"), float("inf"))
MOST = 20_000_000  # samples: 640 MB. Two cores, at 99 Hz and always busy, take 28 hours for them; 96 cores half an hour
_SPELLED = 20_000  # stacks whose names are kept, 0.3 KB each: a dozen signs ask for all of a look
_NEAR = 10_000  # nanoseconds: a gap's end was kept as a float, and so rounded
_KINDS = {"at": np.int64, "cpu": np.int32, "tid": np.int32, "who": np.int32, "stack": np.int32}
_KINDS |= {"weight": np.int64}
_READ = ("at", "cpu", "pid", "tid", "comm", "cgroup", "stack", "weight")


# Arrays by name; "comm" is Words. "weight" may be missing, and is 0 where a sample stands for one period of the rate.
Columns = dict[str, Any]


class Part(Protocol):
    """One stretch of a recording."""

    @property
    def span(self) -> Span: ...

    def stacks(self) -> tuple[Stacks | None, bool]:
        """Its stacks, and whether these are for certain all that its samples speak of."""

    def samples(self, columns: Sequence[str]) -> Columns | None:
        """Some columns of its samples."""


class SettledSamples:
    """The part that one settled head is, in columns: what is read here, and what is written to disk.

    In `chunks` stacks and threads' names are numbers: of `names`, and places in `comms`."""

    def __init__(self, chunks: Sequence[dict[str, npt.NDArray[Any]]], names: StackNames, comms: Iterable[str]) -> None:
        self.chunks, self.names = chunks, names
        self.comms = [it.encode("utf-8", "backslashreplace").decode() for it in comms]

    @property
    def span(self) -> Span:
        return ALWAYS

    @property
    def times(self) -> tuple[int, int] | None:
        """Of the first sample and the last."""
        if not self.chunks:
            return None
        return min(int(it["at"].min()) for it in self.chunks), max(int(it["at"].max()) for it in self.chunks)

    def stacks(self) -> tuple[CodedStacks, bool]:
        rows = self.names.kept()
        codes, lengths, kernel = self.names.coded(rows)
        words = [it.decode() for it in self.names.words()]
        return CodedStacks(self.names.ids[rows], codes, lengths, kernel, words), True

    def samples(self, columns: Sequence[str]) -> Columns | None:
        return {name: self._column(name) for name in columns} if self.chunks else None

    def _column(self, name: str) -> npt.NDArray[Any] | Words:
        if name == "weight":  # 0: one period of the rate
            return np.concatenate([it.get(name, np.zeros(len(it["at"]), np.int64)) for it in self.chunks])
        column = np.concatenate([it[name] for it in self.chunks])
        if name == "comm":
            return Words(column.astype(np.int32, copy=False), self.comms)
        return self.names.ids[column] if name == "stack" else column


class SampleReader:
    """Reads the samples of a recording; what it learns of the stacks is kept from one question to the next."""

    def __init__(
        self,
        parts: Sequence[Part],
        *,
        hz: float,
        span: Span | None = None,
        label: str = "",
        cgroups: Mapping[int, str] | None = None,
        damage: Sequence[str] = (),
    ) -> None:
        """Samples outside `span` are not there. `cgroups` are paths by number, `damage` what could not be read."""
        self._parts, self._hz, self._span, self._label = parts, float(hz), span, label
        self._cgroups, self._damage = cgroups or {}, damage
        self._stacks = DistinctStacks()
        self._spelled: dict[int, tuple[str, ...]] = {}  # by number
        self._whole: dict[int, Ids] = {}  # the stacks of parts that are known for good, by the part's place

    def __call__(
        self, timeline: Timeline, span: Span | None, *, cpu: int | None = None, wanted: Wanted | None = None
    ) -> Samples:
        """Those within a span, on one core, in a stack that is wanted."""
        spans = [it for it in (self._span, span) if it is not None]
        begins, ends = self._edges
        within = np.ones(len(self._parts), bool)
        for it in spans:
            within &= (begins <= it.end) & (ends >= it.start)
        chosen = np.flatnonzero(within).tolist()
        known = self._learnt(chosen)
        good = None if wanted is None else self._judged(known, wanted)
        found = _Found()
        for place in chosen:
            if good is None or place not in self._whole or good[self._stacks.places(known[place])].any():
                self._read(self._parts[place], spans, cpu, good, found)
        return self._samples(found, timeline)

    @cached_property
    def _edges(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """When each part begins and ends: a large node's signs ask for hundreds of spans."""
        spans = [part.span for part in self._parts]
        return np.array([it.start for it in spans], float), np.array([it.end for it in spans], float)

    def _learnt(self, chosen: Sequence[int]) -> dict[int, Ids]:
        """The stacks of the chosen parts. What a damaged one has lost, any other may know: then all are read."""
        known: dict[int, Ids] = {}
        for place in chosen:
            if place not in self._whole:
                stacks, whole = self._parts[place].stacks()
                known[place] = self._stacks.learn(stacks) if stacks is not None else np.empty(0, np.uint64)
                if whole:
                    self._whole[place] = known[place]
        if known.keys() - self._whole.keys() and len(chosen) < len(self._parts):
            self._learnt(range(len(self._parts)))
        return known | {place: self._whole[place] for place in chosen if place in self._whole}

    def _judged(self, known: Mapping[int, Ids], wanted: Wanted) -> Mask:
        """Which places of stacks are wanted; each stack of these parts is judged once."""
        good = np.full(len(self._stacks.ids) + 1, bool(known.keys() - self._whole.keys()))
        for ids in known.values():
            good[self._stacks.places(ids)] = True
        places, frames = np.flatnonzero(good), self._stacks.frames()
        numbers, spelled = self._stacks.numbers(places).tolist(), self._spelled
        if len(numbers) > _SPELLED:
            good[places] = [wanted(frames.names(it)) for it in numbers]
            return good
        if len(spelled) + len(fresh := set(numbers) - spelled.keys()) > _SPELLED:
            spelled.clear()
            fresh = set(numbers)
        spelled |= {it: frames.names(it) for it in fresh}
        good[places] = [wanted(spelled[it]) for it in numbers]
        return good

    def _read(self, part: Part, spans: Sequence[Span], cpu: int | None, good: Mask | None, found: _Found) -> None:
        """What is asked for of one part; the columns that decide are read first, and alone."""
        first = [name for name, asked in (("cpu", cpu), ("stack", good)) if asked is not None]
        columns: Columns = {}
        rows: Ints | None = None
        if first:
            columns = part.samples(first) or {}
            if not columns:
                return
            if cpu is not None:
                rows = np.flatnonzero(columns["cpu"] == cpu)
            if good is not None:
                stack = columns["stack"]
                kept = np.flatnonzero(self._stacks.among(stack if rows is None else stack[rows], good))
                rows = kept if rows is None else rows[kept]
            if rows is None or not len(rows):
                return
        rest = part.samples([name for name in _READ if name not in columns])
        if rest is None or (rows is not None and len(rest["at"]) <= rows[-1]):
            return  # dropped in the meantime, to make room
        columns |= rest
        at = columns["at"]
        rows = np.arange(len(at)) if rows is None else rows
        for span in spans:
            rows = rows[inside(at[rows], span)]
        if len(rows):
            found.take(columns, rows, self._stacks.places(columns["stack"][rows]))

    def _samples(self, found: _Found, timeline: Timeline) -> Samples:
        columns: Columns = found.columns()
        at = columns["at"]
        if np.any(at[1:] < at[:-1]):
            # Nearly in order, as each core's ring is read in turn: a stable sort is fast on that.
            order = np.argsort(at, kind="stable")
            for column in columns.values():
                column[:] = column[order]
        weight, even = columns.pop("weight"), round(SECOND / self._hz) if self._hz else 1
        np.copyto(weight, even, where=weight <= 0)
        if self._hz:
            _weigh(timeline, at, columns["cpu"], weight, self._hz)
        used = np.zeros(len(self._stacks.ids) + 1, np.bool_)
        used[columns["stack"]] = True
        columns["stack"] = (np.cumsum(used, dtype=np.int32) - np.int32(1))[columns["stack"]]
        stacks, numbers = self._stacks, self._stacks.numbers(np.flatnonzero(used))
        return Samples(
            **columns,
            weight=weight,
            whos=[Who(pid, comm, self._path(cgroup)) for pid, comm, cgroup in found.whos],
            idle=np.zeros(len(numbers), np.bool_),  # a recorder leaves idle cores out
            name=lambda: stacks.frames().only(numbers),
            unit="nanoseconds" if self._hz else "samples",
            clock="unix",
            hz=self._hz,
            label=self._label,
            notes=tuple(f"damaged: {harmless(it)}" for it in self._damage),
        )

    def _path(self, cgroup: int) -> str:
        return self._cgroups.get(cgroup, f"cgroup:{cgroup}") if cgroup else ""


class _Found:
    """Samples so far, in columns, and what is distinct among them numbered."""

    def __init__(self) -> None:
        self._chunks: dict[str, list[npt.NDArray[Any]]] = {name: [np.empty(0, it)] for name, it in _KINDS.items()}
        self._count = 0
        self.whos: dict[tuple[int, str, int], int] = {}  # process, thread's name, number of the cgroup

    def take(self, columns: Columns, rows: Ints, places: Ints) -> None:
        """Some rows of one part, and the places of their stacks."""
        self._count += len(rows)
        if self._count > MOST:
            raise UserError(f"more than {MOST:,} samples: choose a part with --from and --to")
        own = {name: columns[name][rows] for name in ("at", "cpu", "tid")}
        weight = columns["weight"][rows] if "weight" in columns else np.zeros(len(rows), np.int64)
        own |= {"who": self._known(columns, rows), "stack": places, "weight": weight}
        for name, column in own.items():
            self._chunks[name].append(column.astype(_KINDS[name], copy=False))

    def _known(self, columns: Columns, rows: Ints) -> npt.NDArray[np.int32]:
        """Who each sample is of, numbered: by codes, never by strings."""
        said: Words = columns["comm"]
        words = [*said.words, ""]
        comm = said.codes[rows].astype(np.int64)
        comm[comm < 0] = len(words) - 1
        cgroups, cgroup = np.unique(columns["cgroup"][rows], return_inverse=True)
        pid = columns["pid"][rows].astype(np.int64)
        key = (pid * len(words) + comm) * len(cgroups) + cgroup
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
        whos = zip(pid[first].tolist(), (words[it] for it in comm[first]), cgroups[cgroup[first]].tolist(), strict=True)
        return np.array([self.whos.setdefault(who, len(self.whos)) for who in whos], np.int32)[which]

    def columns(self) -> dict[str, npt.NDArray[Any]]:
        """All of them; can be asked once, as each column is let go when it is made whole."""
        return {name: np.concatenate(self._chunks.pop(name)) for name in _KINDS}


def _weigh(timeline: Timeline, at: Ints, cpu: npt.NDArray[np.int32], weight: Ints, hz: float) -> None:
    """Let each sample that ends a period without interrupts stand for all of it.

    Where samples come by a timer, none comes while interrupts are off: the one that was due comes as soon as they are
    on again, with the stack that had switched them off. The next one is on the grid again, half a period later
    on average.
    """
    for core in np.unique(cpu).tolist():
        found = timeline.once(core_gaps, f"cpu:{core}")
        if not len(found):
            continue
        own = np.flatnonzero(cpu == core)
        ends = np.round((found.at + found.values) * SECOND).astype(np.int64)
        place = np.minimum(np.searchsorted(at[own], ends - _NEAR), len(own) - 1)
        ending = np.abs(at[own[place]] - ends) < _NEAR
        lengths = np.round((found.values - 0.5 / hz) * SECOND).astype(np.int64)
        weight[own[place[ending]]] = lengths[ending]
