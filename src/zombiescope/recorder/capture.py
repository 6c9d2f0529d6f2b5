"""The stacks of a recording as a Capture, which the profiler works on: one row per sample.

Twelve hours of two cores at 99 Hz are 8.5 million samples, so each segment is read, numbered and freed before the next:
in the end a sample takes 32 bytes. How much time each stands for is as in `Timeline.samples`.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zombiescope.core import Span, UserError, harmless
from zombiescope.core.timeline import Timeline
from zombiescope.profile.capture import Capture, Frames, Function, Ints, Who
from zombiescope.recorder.layout import CGROUP, GAP, SCHEMAS
from zombiescope.recorder.replay import Recording
from zombiescope.recorder.segment import as_batch
from zombiescope.recorder.tape import Tape

MOST = 20_000_000  # samples: 640 MB. Two cores, at 99 Hz and always busy, take 28 hours for them; 96 cores half an hour
_SECOND = 1_000_000_000
_NEAR = 10_000  # nanoseconds: a gap's end was kept as a float, and so rounded
_KINDS = {"at": np.int64, "cpu": np.int32, "tid": np.int32, "who": np.int32, "stack": np.int32, "weight": np.int64}


def captured(recording: Recording, span: Span | None = None, *, timeline: Timeline | None = None) -> Capture:
    """All samples, or those within a span; `timeline` is that of the same span, if it was read already."""
    building = _Building(span)
    gaps = False
    for samples, stacks, events in recording.by_segment(span, "samples", "stacks", "events"):
        if samples is not None:
            building.take(samples, stacks if stacks is not None else SCHEMAS["stacks"].empty_table())
        if events is not None:
            gaps |= building.hear(events)
    if gaps and timeline is None:
        timeline = recording.timeline(span)
    hz = float(recording.meta.get("hz") or 0)
    notes = tuple(f"damaged: {harmless(it)}" for it in recording.damage)
    return building.capture(timeline if gaps else None, hz, str(recording.meta.get("node", "")), notes)


def captured_tape(tape: Tape, timeline: Timeline) -> Capture:
    """The same for a recording in memory and its timeline."""
    building = _Building(None)
    (stacks,) = (pa.Table.from_batches([as_batch("stacks", it)]) for it in tape.rows("stacks"))
    for samples in tape.rows("samples"):
        building.take(pa.Table.from_batches([as_batch("samples", samples)]), stacks)
    for subject in timeline.subjects(CGROUP):
        building.place({int(it): subject for it in timeline.series(CGROUP, subject).values})
    return building.capture(timeline, float(tape.hz), "")


class _Building:
    """Samples so far, in columns, and what is distinct among them numbered."""

    def __init__(self, span: Span | None) -> None:
        self._span = span
        # Room for the maximum: untouched pages take no memory, and nothing is ever copied.
        self._columns: dict[str, npt.NDArray[Any]] = {name: np.empty(MOST, kind) for name, kind in _KINDS.items()}
        self._count = 0
        self._stacks: dict[int, int] = {}  # those that samples refer to, by id
        self._named: dict[int, int] = {}  # the row of `frames` in which a stack is named
        self._frames: list[pa.Table] = []
        self._whos: dict[tuple[int, str, int], int] = {}  # process, thread's name, id of the cgroup
        self._paths: dict[int, str] = {}

    def take(self, samples: pa.Table, stacks: pa.Table) -> None:
        """Add one segment."""
        if self._span is not None:
            at = samples["at"].to_numpy()
            samples = samples.filter(pa.array((at >= self._span.start * _SECOND) & (at <= self._span.end * _SECOND)))
        if not samples.num_rows:
            return
        rows = slice(self._count, self._count + samples.num_rows)
        if rows.stop > MOST:
            raise UserError(f"more than {MOST:,} samples: choose a part with --from and --to")
        self._count = rows.stop
        for name in ("at", "cpu", "tid"):
            self._columns[name][rows] = samples[name].to_numpy()
        self._columns["who"][rows] = self._known(samples)
        self._columns["stack"][rows] = self._numbered(samples["stack"].to_numpy(), stacks)

    def _numbered(self, ids: npt.NDArray[np.uint64], stacks: pa.Table) -> npt.NDArray[np.int32]:
        """Stacks by number; a damaged segment refers to stacks that it lost, and another one may have them."""
        ids_here, first = np.unique(stacks["stack"].to_numpy(), return_index=True)
        fresh = [
            place for stack, place in zip(ids_here.tolist(), first.tolist(), strict=True) if stack not in self._named
        ]
        if fresh:
            kept = stacks.take(pa.array(fresh))
            self._named |= {stack: len(self._named) + place for place, stack in enumerate(kept["stack"].to_pylist())}
            self._frames.append(kept)
        distinct, which = np.unique(ids, return_inverse=True)
        numbers = [self._stacks.setdefault(it, len(self._stacks)) for it in distinct.tolist()]
        return np.array(numbers, np.int32)[which]

    def _known(self, samples: pa.Table) -> npt.NDArray[np.int32]:
        """The thread of each sample, numbered: by codes, never by strings."""
        column = samples["comm"].unify_dictionaries().combine_chunks()
        words = [*column.dictionary.to_pylist(), ""]
        comm = column.indices.fill_null(len(words) - 1).to_numpy(zero_copy_only=False).astype(np.int64)
        cgroups, cgroup = np.unique(samples["cgroup"].to_numpy(), return_inverse=True)
        pid = samples["pid"].to_numpy().astype(np.int64)
        key = (pid * len(words) + comm) * len(cgroups) + cgroup
        _, first, which = np.unique(key, return_index=True, return_inverse=True)
        whos = zip(pid[first].tolist(), (words[it] for it in comm[first]), cgroups[cgroup[first]].tolist(), strict=True)
        return np.array([self._whos.setdefault(who, len(self._whos)) for who in whos], np.int32)[which]

    def hear(self, events: pa.Table) -> bool:
        """Learn the paths of cgroups; returns whether there is a gap among the events."""
        what = events["what"].unify_dictionaries().combine_chunks()
        words = what.dictionary.to_pylist()
        if CGROUP in words:
            known = events.filter(pa.array(what.indices.to_numpy() == words.index(CGROUP)))
            self.place(dict(zip(map(int, known["value"].to_pylist()), known["subject"].to_pylist(), strict=True)))
        return GAP in words

    def place(self, subjects: Mapping[int, str]) -> None:
        self._paths |= {number: subject.removeprefix("cgroup:") for number, subject in subjects.items()}

    def capture(self, timeline: Timeline | None, hz: float, label: str, notes: tuple[str, ...] = ()) -> Capture:
        columns = {name: column[: self._count] for name, column in self._columns.items()}
        at, cpu, weight = columns["at"], columns["cpu"], columns["weight"]
        weight[:] = round(_SECOND / hz) if hz else 1
        if np.any(at[1:] < at[:-1]):
            # Nearly in order: each core's ring is read in turn. A stable sort is fast on that.
            order = np.argsort(at, kind="stable")
            for column in columns.values():
                column[:] = column[order]
        if timeline is not None and hz:
            _weigh(timeline, at, cpu, weight, hz)
        whos = [Who(pid, comm, self._path(cgroup)) for pid, comm, cgroup in self._whos]
        lost = {"stack": [0], "frames": [("[lost]",)], "kernel_frames": [0]}
        tables = [*self._frames, pa.Table.from_batches([as_batch("stacks", lost)])]
        rows = np.array([self._named.get(stack, len(self._named)) for stack in self._stacks], np.int64)
        return Capture(
            **columns,
            whos=whos,
            idle=np.zeros(len(self._stacks), np.bool_),  # a recorder leaves idle cores out
            name=lambda: _named(pa.concat_tables(tables).take(pa.array(rows))),
            unit="nanoseconds" if hz else "samples",
            clock="unix",
            hz=hz,
            label=label,
            notes=notes,
        )

    def _path(self, cgroup: int) -> str:
        return self._paths.get(cgroup, f"cgroup:{cgroup}") if cgroup else ""


def _weigh(timeline: Timeline, at: Ints, cpu: Ints, weight: Ints, hz: float) -> None:
    """A sample that ends a period without interrupts stands for all of it, as in `core.samples`, but in integers."""
    for subject in timeline.subjects(GAP, "cpu"):
        gaps = timeline.gaps(subject)
        own = np.flatnonzero(cpu == int(subject.removeprefix("cpu:")))
        if not len(own) or not len(gaps):
            continue
        ends = np.round((gaps.at + gaps.values) * _SECOND).astype(np.int64)
        place = np.minimum(np.searchsorted(at[own], ends - _NEAR), len(own) - 1)
        ending = np.abs(at[own[place]] - ends) < _NEAR
        lengths = np.round((gaps.values - 0.5 / hz) * _SECOND).astype(np.int64)
        weight[own[place[ending]]] = lengths[ending]


def _named(table: pa.Table) -> Frames:
    """Functions of all stacks, in the order of their numbers; each distinct name is made once."""
    if not table.num_rows:
        return Frames(functions=[], of=np.empty(0, np.int32), starts=np.zeros(1, np.int64))
    frames = table["frames"].combine_chunks()
    starts = frames.offsets.to_numpy().astype(np.int64)
    starts -= starts[0]
    words = frames.flatten().dictionary_encode()
    depth = np.arange(starts[-1]) - np.repeat(starts[:-1], np.diff(starts))
    first_kernel = np.diff(starts) - table["kernel_frames"].to_numpy().astype(np.int64)
    kernel = depth >= np.repeat(first_kernel, np.diff(starts))
    codes, of = np.unique(words.indices.to_numpy().astype(np.int64) * 2 + kernel, return_inverse=True)
    names = words.dictionary.to_pylist()
    functions = [_function(names[code // 2], bool(code % 2)) for code in codes.tolist()]
    return Frames(functions=functions, of=of.astype(np.int32), starts=starts)


def _function(name: str, kernel: bool) -> Function:
    """The kernel's symbol table puts the module's name after the function's: "nf_conntrack_in [nf_conntrack]"."""
    plain, _, module = name.partition(" [") if kernel else (name, "", "")
    return Function(plain, kernel, module.removesuffix("]"))
