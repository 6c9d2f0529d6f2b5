"""Read a perf.data file into a Samples, directly: neither `perf` nor its text output is needed.

Pieces of a few megabytes are read one after the other; of each only columns and new chains are kept, so memory grows
with the number of samples (32 bytes each) and of distinct stacks, not with the file. Names are resolved when needed.
Damage ends the reading, and a note says where; what was read before is kept.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from zombiescope.core.errors import Unparsable
from zombiescope.core.samples import Frames, Ints, Samples
from zombiescope.core.words import harmless
from zombiescope.naming.kallsyms import Kernel
from zombiescope.naming.kallsyms_text import KallsymsText
from zombiescope.profile import perf_data_header
from zombiescope.profile.events import chosen, left_out, origin
from zombiescope.profile.perf_data_chains import Stacks
from zombiescope.profile.perf_data_facts import build_ids
from zombiescope.profile.perf_data_header import CPU, ID, STREAM_ID, TID, TIME, Event, Header, Read, with_facts
from zombiescope.profile.perf_data_mappings import Mappings
from zombiescope.profile.perf_data_records import (
    CGROUP,
    HEADER_ATTR,
    HEADER_BUILD_ID,
    HEADER_FEATURE,
    LOST,
    LOST_SAMPLES,
    THROTTLE,
    Piece,
)
from zombiescope.profile.perf_data_rows import idle_of, split, whos_of
from zombiescope.profile.perf_data_samples import MOST, SampleRecords, has_stack
from zombiescope.profile.perf_data_tasks import Tasks

if TYPE_CHECKING:
    from zombiescope.naming.symbols import Symbols
    from zombiescope.profile.unwind import OpenFile, Unwinder

# Given by the caller: the symbols of the kernel that ran (None if not available), and of any file.
FindKernel = Callable[[Kernel | None, str], KallsymsText | None]
MakeSymbols = Callable[[KallsymsText | None], "Symbols"]

_LONGEST_PERIOD = 1 << 42  # nanoseconds, of a clock: 73 minutes. Longer is damage, and sums would not be exact
_MOST_CUT = 3  # files that are named
_MOST_GROUPS = 1 << 20  # paths of cgroups


class _Reading:
    """What is gathered, piece by piece."""

    def __init__(self, header: Header, notes: list[str], label: str, unwinder: Unwinder | None = None) -> None:
        self.header, self.notes, self.label, self.unwinder = header, notes, label, unwinder
        self.samples, self.tasks, self.mappings = SampleRecords(header.events, unwinder), Tasks(), Mappings()
        self.trailer, self.time_at = _trailer(header.events[0])
        self.cgroups: dict[int, str] = {}
        self.build_ids = dict(header.build_ids)
        self.lost = self.throttled = 0

    def take(self, piece: Piece) -> None:
        self.samples.take(piece)
        self.place(piece)
        for kind, word in ((LOST, 2), (LOST_SAMPLES, 1)):
            self.lost += sum(int.from_bytes(it[8 * word : 8 * word + 8], "little") for it in piece.bytes_of(kind))
        self.throttled += len(piece.of(THROTTLE))
        for record in piece.bytes_of(CGROUP):
            if len(self.cgroups) < _MOST_GROUPS:
                path = record[16 : len(record) - 8 * self.trailer].partition(b"\0")[0]
                self.cgroups[int.from_bytes(record[8:16], "little")] = path.decode("utf-8", "surrogateescape")

    def place(self, piece: Piece) -> None:
        """What ran, and what was mapped where."""
        self.tasks.take(piece, self.trailer, self.time_at)
        self.mappings.take(piece, self.trailer, self.time_at)
        for record in piece.bytes_of(HEADER_BUILD_ID):
            self.build_ids.update(build_ids(record))


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
) -> Samples:
    """All samples of a file of `size` bytes that `read` gives. A bad header raises Unparsable.

    `event` chooses one of several; `more` are files of records alone, one for each thread of `perf record --threads`;
    `open_file` gives the programs and libraries by which user stacks are unwound.
    """
    header = perf_data_header.parse(read, size, label)
    notes = list(header.notes)
    if header.compressed or not header.events:
        from zombiescope.profile.perf_data_stream import pieces
    else:
        from zombiescope.profile.perf_data_records import pieces

    def stream(noted: list[str]) -> Iterator[Piece]:
        parts = [(read, header.start, header.end), *((each, 0, length) for each, length in more)]
        return chain.from_iterable(pieces(*part, noted) for part in parts)

    if not header.events:
        header = _piped(header, next(stream([]), None), label)
    unwinder = None
    if open_file is not None and any(map(has_stack, header.events)):
        unwinder = _unwinder(header, stream([]), open_file, label)
    reading = _Reading(header, notes, label, unwinder)
    for piece in stream(notes):
        reading.take(piece)
        if reading.samples.count >= MOST or reading.samples.chains.is_full:
            notes.append(f"only the first {reading.samples.count:,} samples are read: more would not fit into memory")
            break
    if unwinder is not None:
        unwinder.close()
    return _captured(reading, find_kernel, make_symbols, label, event)


def _piped(header: Header, first: Piece | None, label: str) -> Header:
    """Data from a pipe has its events in records, before anything else."""
    events = []
    for record in first.bytes_of(HEADER_ATTR) if first else ():
        size = int.from_bytes(record[12:16], "little")
        if 64 <= size <= len(record) - 8:
            ids = np.frombuffer(record[8 + size :], np.uint64).tolist() if (len(record) - size) % 8 == 0 else []
            events.append(perf_data_header.event(record[8 : 8 + size], tuple(ids)))
    if first is None or not events:
        raise Unparsable(label, 16, "perf.data from a pipe without events: cut off")
    facts = {int.from_bytes(it[8:16], "little"): it[16:] for it in first.bytes_of(HEADER_FEATURE)}
    return with_facts(header._replace(events=tuple(events)), facts)


def _unwinder(header: Header, stream: Iterable[Piece], open_file: OpenFile, label: str) -> Unwinder:
    """What was mapped where must be known before any stack can be unwound: the file is read twice."""
    from zombiescope.profile.unwind import Unwinder

    reading = _Reading(header, [], label)
    for piece in stream:
        reading.place(piece)
    reading.tasks.settle()
    spaces = np.arange(len(reading.tasks.spaces()[0]))
    return Unwinder(
        reading.mappings.atlas(spaces, reading.tasks, reading.build_ids), reading.tasks.spaces_of, open_file
    )


def _trailer(event: Event) -> tuple[int, int]:
    """Words in the trailer of every record that is not a sample, and which of them, from the end, is the time."""
    if not event.trailed:
        return 0, 0
    asked = [bit for bit in (TID, TIME, ID, STREAM_ID, CPU, perf_data_header.IDENTIFIER) if event.sample_type & bit]
    return len(asked), len(asked) - asked.index(TIME) if TIME in asked else 0


def _captured(
    reading: _Reading, find_kernel: FindKernel, make_symbols: MakeSymbols, label: str, wanted: str | None
) -> Samples:
    samples, tasks, header = reading.samples, reading.tasks, reading.header
    tasks.settle()
    event = chosen(samples.counts, wanted, label)
    at, rows = samples.column("at", np.int64), samples.rows(event)
    order = np.argsort(at, kind="stable") if rows is None else rows[np.argsort(at[rows], kind="stable")]
    at = at[order]
    pid, tid, cpu = (samples.column(name, np.int32)[order] for name in ("pid", "tid", "cpu"))
    stacks, stack = split(samples.chains, samples.column("chain", np.int32)[order], pid, at, tasks)
    whos, who = whos_of(pid, tid, at, samples.column("cgroup", np.int64)[order], tasks, reading.cgroups)
    kernel = find_kernel(reading.mappings.kernel, header.kernel)
    unit, weight, hz = _weights(samples.column("period", np.int64), order, samples.event(event))
    reading.notes.extend(_told(reading, kernel, stacks, stack, event))
    unix = header.to_unix
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
        hz=hz,
        label=label,
        notes=tuple(reading.notes),
        origin=origin("perf.data", _producer(header), event, samples.counts, unit),
    )


def _producer(header: Header) -> str:
    parts = [f"perf {header.version}" if header.version else "perf"]
    parts += [f"on {header.hostname}"] if header.hostname else []
    return " ".join(parts) + (f", Linux {header.kernel}" if header.kernel else "")


def _weights(period: Ints, order: Ints, event: Event) -> tuple[str, Ints, float]:
    """Each sample counts as one. If the periods of a clock differ, they are what each stands for, in nanoseconds."""
    its = period[order] if len(period) else period
    if not len(its) or int(its.min()) <= 0 or int(its.min()) == int(its.max()):
        return "samples", np.ones(len(order), np.int64), event.hz
    return "nanoseconds", np.minimum(its, _LONGEST_PERIOD), event.hz


def _named(
    stacks: Stacks,
    reading: _Reading,
    kernel: KallsymsText | None,
    make_symbols: MakeSymbols,
    wanted: Ints | None = None,
) -> Frames:
    from zombiescope.profile.perf_data_names import named  # a heatmap needs none

    symbols = make_symbols(kernel)
    tasks, mappings = reading.tasks, reading.mappings
    return named(stacks, tasks, mappings, symbols, reading.build_ids, wanted, bare=kernel is None)


def _told(
    reading: _Reading, kernel: KallsymsText | None, stacks: Stacks, stack: npt.NDArray[np.int32], event: str
) -> Iterator[str]:
    samples = reading.samples
    if kernel is None:
        release = f" ({harmless(reading.header.kernel)})" if reading.header.kernel else ""
        yield (
            f"no kernel symbols of that boot{release}: kernel functions are shown as addresses, idle cores count as "
            "busy; give a copy of its /proc/kallsyms with --kallsyms, or save it beside the file, as FILE.kallsyms"
        )
    elif kernel.zeroed:
        yield "kernel symbols are hidden from this user: run as root, or set sysctl kernel.kptr_restrict=0"
    if others := left_out(event, samples.counts):
        yield others
    yield from _unwound(reading)
    spoilt = int(stacks.spoilt()[stacks.chain][stack].sum())
    for count, what in (
        (reading.lost, "samples were lost by the kernel: the rings were full"),
        (samples.broken, "samples are cut short, and are left out"),
        (reading.throttled, "times the kernel throttled sampling, as it took too long"),
        (spoilt, "stacks hold invalid addresses; the rest of each stack is kept"),
    ):
        if count:
            yield f"{count:,} {what}"


def _unwound(reading: _Reading) -> Iterator[str]:
    """What is missing of user stacks that were recorded as a copy of memory."""
    if reading.samples.stacks and reading.unwinder is None:
        yield f"{reading.samples.stacks:,} user stacks (--call-graph dwarf) are not unwound: only the leaf is shown"
    if reading.unwinder is not None:
        for path, count in reading.unwinder.cut.most_common(_MOST_CUT):
            yield f"{count:,} user stacks are cut: {harmless(path)} is not here, or is another build"
        if reading.unwinder.foreign:
            yield f"{reading.unwinder.foreign:,} user stacks are not unwound: they are not of 64-bit x86 processes"
