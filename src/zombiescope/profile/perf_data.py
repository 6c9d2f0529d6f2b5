"""Read a perf.data file into a Samples, directly: neither `perf` nor its text output is needed.

Pieces of a few megabytes are read one after the other; of each only columns and new chains are kept, so memory grows
with the number of samples (32 bytes each) and of distinct stacks, not with the file. Names are resolved when needed.
Damage ends the reading, and a note says where; what was read before is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from zombiescope.core.samples import Frames, Ints, Samples, Who
from zombiescope.knowledge.functions import is_idle
from zombiescope.naming.kallsyms import Kernel
from zombiescope.naming.kallsyms_text import KallsymsText
from zombiescope.profile import perf_data_notes
from zombiescope.profile.events import chosen, origin
from zombiescope.profile.perf_data_chains import Stacks
from zombiescope.profile.perf_data_header import Header, Read
from zombiescope.profile.perf_data_reading import Reading, Records
from zombiescope.profile.perf_data_rows import idle_of, split, whos_of
from zombiescope.profile.perf_data_samples import Spans

if TYPE_CHECKING:
    from zombiescope.naming.symbols import Symbols
    from zombiescope.profile.unwind import OpenFile

# Given by the caller: the symbols of the kernel that ran (None if not available), and of any file.
FindKernel = Callable[[Kernel | None, str], KallsymsText | None]
MakeSymbols = Callable[[KallsymsText | None], "Symbols"]

_LONGEST_PERIOD = 1 << 42  # nanoseconds, of a clock: 73 minutes. Longer is damage, and sums would not be exact


def capture(
    read: Read,
    size: int,
    find_kernel: FindKernel,
    make_symbols: MakeSymbols,
    *,
    label: str = "perf.data",
    event: str | None = None,
    more: Sequence[tuple[Read, int]] = (),
    open_file: OpenFile | None = None,
    stacks: bool = True,
) -> Samples:
    """All samples of a file of `size` bytes that `read` gives. A bad header raises Unparsable.

    `event` chooses one of several; `more` are files of records alone, one for each thread of `perf record --threads`;
    `open_file` gives the programs and libraries by which user stacks are unwound. Without `stacks` only when and where
    samples were taken is read: enough for a heatmap; `in_full` of what is returned reads the rest of any time.
    """
    reading = Reading(Records(read, size, label, more), label, stacks=stacks)
    reading.read(open_file if stacks else None)
    name = chosen(reading.samples.counts, event, label)
    kernel = find_kernel(reading.mappings.kernel, reading.header.kernel)
    notes = (*reading.notes, *perf_data_notes.of_file(reading, kernel, name))
    if stacks:
        return _captured(reading, kernel, make_symbols, name, notes)
    return _glanced(reading, kernel, make_symbols, name, notes, open_file)


def _captured(
    reading: Reading,
    kernel: KallsymsText | None,
    make_symbols: MakeSymbols,
    event: str,
    notes: Sequence[str],
    unit: str = "",
) -> Samples:
    samples, tasks, unix = reading.samples, reading.tasks, reading.header.to_unix
    at, rows = samples.column("at", np.int64), samples.rows(event)
    order = np.argsort(at, kind="stable") if rows is None else rows[np.argsort(at[rows], kind="stable")]
    at = at[order]
    pid, tid, cpu = (samples.column(name, np.int32)[order] for name in ("pid", "tid", "cpu"))
    stacks, stack = split(samples.chains, samples.column("chain", np.int32)[order], pid, at, tasks)
    whos, who = whos_of(pid, tid, at, samples.column("cgroup", np.int64)[order], tasks, reading.cgroups)
    weight, unit = _weights(samples.column("period", np.int64), order, unit)
    return Samples(
        at=at if unix is None else at + unix,
        cpu=cpu,
        tid=tid,
        who=who,
        stack=stack,
        weight=weight,
        whos=whos,
        idle=idle_of(stacks, kernel),
        name=partial(_named, stacks, reading, kernel, make_symbols),
        name_some=partial(_named, stacks, reading, kernel, make_symbols),
        unit=unit,
        clock="machine" if unix is None else "unix",
        hz=samples.event(event).hz,
        label=reading.label,
        notes=(*notes, *perf_data_notes.of_stacks(reading, stacks, stack)),
        origin=origin("perf.data", _producer(reading.header), event, samples.counts, unit),
    )


def _glanced(
    reading: Reading,
    kernel: KallsymsText | None,
    make_symbols: MakeSymbols,
    event: str,
    notes: Sequence[str],
    open_file: OpenFile | None,
) -> Samples:
    """When and where alone: a sample has one of two empty stacks, the one of work or the one of an idle core."""
    samples, unix = reading.samples, reading.header.to_unix
    at, rows = samples.column("at", np.int64), samples.rows(event)
    order = np.argsort(at, kind="stable") if rows is None else rows[np.argsort(at[rows], kind="stable")]
    leaves = samples.column("leaf", np.uint64)[order]
    stack, idled = np.zeros(len(order), np.int32), np.flatnonzero(leaves)
    if kernel is not None and len(idled):
        stack[idled] = kernel.those(leaves[idled], is_idle)
    weight, unit = _weights(samples.column("period", np.int64), order)
    empty = Frames(functions=[], of=np.empty(0, np.int32), starts=np.zeros(3, np.int64))
    shift = 0 if unix is None else unix
    its_origin = origin("perf.data", _producer(reading.header), event, samples.counts, unit)

    def in_full(spans: Spans) -> Samples:
        reading.part([(start - shift, end - shift) for start, end in spans], open_file)
        return replace(_captured(reading, kernel, make_symbols, event, (), unit), origin=its_origin)

    return Samples(
        at=at[order] + shift,
        cpu=samples.column("cpu", np.int32)[order],
        tid=samples.column("tid", np.int32)[order],
        who=np.zeros(len(order), np.int32),
        stack=stack,
        weight=weight,
        whos=[Who(-1, "")],
        idle=np.array([False, True]),
        name=lambda: empty,
        in_full=in_full,
        unit=unit,
        clock="machine" if unix is None else "unix",
        hz=samples.event(event).hz,
        label=reading.label,
        notes=tuple(notes),
        origin=its_origin,
    )


def _producer(header: Header) -> str:
    parts = [f"perf {header.version}" if header.version else "perf"]
    parts += [f"on {header.hostname}"] if header.hostname else []
    return " ".join(parts) + (f", Linux {header.kernel}" if header.kernel else "")


def _weights(period: Ints, order: Ints, unit: str = "") -> tuple[Ints, str]:
    """Each sample counts as one. If the periods of a clock differ, they are what each stands for, in nanoseconds."""
    its = period[order] if len(period) else period
    even = not len(its) or int(its.min()) <= 0 or int(its.min()) == int(its.max())
    if (unit or ("samples" if even else "nanoseconds")) == "samples":
        return np.ones(len(order), np.int64), "samples"
    return np.minimum(its, _LONGEST_PERIOD), "nanoseconds"


def _named(
    stacks: Stacks,
    reading: Reading,
    kernel: KallsymsText | None,
    make_symbols: MakeSymbols,
    wanted: Ints | None = None,
) -> Frames:
    from zombiescope.profile.perf_data_names import named  # a heatmap needs none

    symbols = make_symbols(kernel)
    return named(stacks, reading, symbols, wanted, bare=kernel is None)
