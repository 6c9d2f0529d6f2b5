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
from zombiescope.core.samples import Frames, Ints, Mask, Samples, Who
from zombiescope.core.words import harmless
from zombiescope.knowledge.functions import is_idle
from zombiescope.naming.kallsyms import Kallsyms, KallsymsText, Kernel
from zombiescope.profile import perf_data_header
from zombiescope.profile.events import chosen, left_out, origin
from zombiescope.profile.perf_data_chains import Chains, Stacks
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
from zombiescope.profile.perf_data_samples import MOST, SampleRecords
from zombiescope.profile.perf_data_tasks import Tasks

if TYPE_CHECKING:
    from zombiescope.naming.symbols import Symbols

# Given by the caller: the symbols of the kernel that ran (None if not available), and of any file.
FindKernel = Callable[[Kernel | None, str], KallsymsText | None]
MakeSymbols = Callable[[Kallsyms | None], "Symbols"]

Ids = npt.NDArray[np.int32]

_LONGEST_PERIOD = 1 << 42  # nanoseconds, of a clock: 73 minutes. Longer is damage, and sums would not be exact
_MOST_GROUPS = 1 << 20  # paths of cgroups


class _Reading:
    """What is gathered, piece by piece."""

    def __init__(self, header: Header, notes: list[str], label: str) -> None:
        self.header, self.notes, self.label = header, notes, label
        self.samples, self.tasks, self.mappings = SampleRecords(header.events), Tasks(), Mappings()
        self.trailer, self.time_at = _trailer(header.events[0])
        self.cgroups: dict[int, str] = {}
        self.build_ids = dict(header.build_ids)
        self.lost = self.throttled = 0

    def take(self, piece: Piece) -> None:
        self.samples.take(piece)
        self.tasks.take(piece, self.trailer, self.time_at)
        self.mappings.take(piece, self.trailer, self.time_at)
        for kind, word in ((LOST, 2), (LOST_SAMPLES, 1)):
            self.lost += sum(int.from_bytes(it[8 * word : 8 * word + 8], "little") for it in piece.bytes_of(kind))
        self.throttled += len(piece.of(THROTTLE))
        for record in piece.bytes_of(HEADER_BUILD_ID):
            self.build_ids.update(build_ids(record))
        for record in piece.bytes_of(CGROUP):
            if len(self.cgroups) < _MOST_GROUPS:
                path = record[16 : len(record) - 8 * self.trailer].partition(b"\0")[0]
                self.cgroups[int.from_bytes(record[8:16], "little")] = path.decode("utf-8", "surrogateescape")


def capture(
    read: Read,
    size: int,
    find_kernel: FindKernel,
    make_symbols: MakeSymbols,
    *,
    label: str = "perf.data",
    event: str | None = None,
    more: Sequence[tuple[Read, int]] = (),
) -> Samples:
    """All samples of a file of `size` bytes that `read` gives. A bad header raises Unparsable.

    `event` chooses one of several; `more` are files of records alone, one for each thread of `perf record --threads`.
    """
    header = perf_data_header.parse(read, size, label)
    notes = list(header.notes)
    if header.compressed or not header.events:
        from zombiescope.profile.perf_data_stream import pieces
    else:
        from zombiescope.profile.perf_data_records import pieces
    parts = [pieces(read, header.start, header.end, notes), *(pieces(each, 0, length, notes) for each, length in more)]
    stream: Iterator[Piece] = chain.from_iterable(parts)
    if not header.events:
        header, stream = _piped(header, stream, label)
    reading = _Reading(header, notes, label)
    for piece in stream:
        reading.take(piece)
        if reading.samples.count >= MOST or reading.samples.chains.is_full:
            notes.append(f"only the first {reading.samples.count:,} samples are read: more would not fit into memory")
            break
    return _captured(reading, find_kernel, make_symbols, label, event)


def _piped(header: Header, stream: Iterator[Piece], label: str) -> tuple[Header, Iterator[Piece]]:
    """Data from a pipe has its events in records, before anything else."""
    first = next(stream, None)
    events = []
    for record in first.bytes_of(HEADER_ATTR) if first else ():
        size = int.from_bytes(record[12:16], "little")
        if 64 <= size <= len(record) - 8:
            ids = np.frombuffer(record[8 + size :], np.uint64).tolist() if (len(record) - size) % 8 == 0 else []
            events.append(perf_data_header.event(record[8 : 8 + size], tuple(ids)))
    facts = {int.from_bytes(it[8:16], "little"): it[16:] for it in (first.bytes_of(HEADER_FEATURE) if first else ())}
    if first is None or not events:
        raise Unparsable(label, 16, "perf.data from a pipe without events: cut off")
    return with_facts(header._replace(events=tuple(events)), facts), _after(first, stream)


def _after(first: Piece, rest: Iterable[Piece]) -> Iterator[Piece]:
    yield first
    yield from rest


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
    stacks, stack = _split(samples.chains, samples.column("chain", np.int32)[order], pid, at, tasks)
    whos, who = _whos(pid, tid, at, samples.column("cgroup", np.int64)[order], reading)
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
        idle=_idle(stacks, kernel),
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

    symbols = make_symbols(kernel.whole if kernel else None)
    tasks, mappings = reading.tasks, reading.mappings
    return named(stacks, tasks, mappings, symbols, reading.build_ids, wanted, bare=kernel is None)


def _split(chains: Chains, numbers: Ids, pid: Ids, at: Ints, tasks: Tasks) -> tuple[Stacks, Ids]:
    """A chain is a stack; but a chain of a process that ran two programs is two stacks."""
    words, starts, users = chains.all()
    count = len(chains)
    first = np.zeros(count, np.int64)
    first[numbers[::-1]] = np.arange(len(numbers))[::-1]  # the sample each chain was first seen in
    stacks = Stacks(words, starts, np.arange(count, dtype=np.int32), pid[first], at[first])
    again = np.flatnonzero(users[numbers] & (first[numbers] != np.arange(len(numbers))))
    spaces = [tasks.spaces_of(pid[rows].astype(np.int64), at[rows]) for rows in (again, first[numbers[again]])]
    odd = spaces[0] != spaces[1]
    if not odd.any():
        return stacks, numbers
    pairs, one, which = np.unique(
        np.stack([numbers[again[odd]], spaces[0][odd]]), axis=1, return_index=True, return_inverse=True
    )
    rows = np.concatenate([first, again[odd][one]])
    numbers[again[odd]] = count + which.reshape(-1)
    more = np.concatenate([stacks.chain, pairs[0].astype(np.int32)])
    return Stacks(words, starts, more, pid[rows], at[rows]), numbers


def _whos(pid: Ids, tid: Ids, at: Ints, cgroup: Ints, reading: _Reading) -> tuple[list[Who], Ids]:
    """Distinct pids, names and cgroups, and which of them each sample belongs to."""
    pids, comms = reading.tasks.named
    row = reading.tasks.names_of(tid.astype(np.int64), at)
    nameless = np.flatnonzero((row < 0) | (pids[row] != pid) | (comms[row] < 0))
    threads, which = np.unique(np.stack([pid[nameless], tid[nameless]]), axis=1, return_inverse=True)
    row[nameless] = len(pids) + which.reshape(-1)
    # perf names an unknown thread by its number.
    names = [*reading.tasks.comms, *(f":{thread}" for thread in threads[1].tolist())]
    pids = np.concatenate([pids, threads[0]])
    comms = np.concatenate([comms, np.arange(len(reading.tasks.comms), len(names))])
    if cgroup.any():
        groups, group = np.unique(cgroup, return_inverse=True)
        rows, which = np.unique(row * len(groups) + group.reshape(-1), return_inverse=True)
    else:
        groups = np.zeros(1, np.int64)
        there = np.bincount(row, minlength=len(pids)) > 0
        rows, which = np.flatnonzero(there), (np.cumsum(there) - 1)[row]
    # Several rows may have the same name: threads of the same process.
    columns = pids[rows // len(groups)], comms[rows // len(groups)], rows % len(groups)
    order = np.lexsort(columns)
    begins = np.append(True, np.any([it[order][1:] != it[order][:-1] for it in columns], axis=0))[: len(order)]
    who = np.empty(len(order), np.int32)
    who[order] = np.cumsum(begins) - 1
    pid_of, comm_of, group_of = (it[order][begins].tolist() for it in columns)
    paths = [reading.cgroups.get(it, f"cgroup:{it}" if it else "") for it in groups.tolist()]
    whos = zip(pid_of, map(names.__getitem__, comm_of), map(paths.__getitem__, group_of), strict=True)
    return list(map(Who._make, whos)), who[which.reshape(-1)]


def _idle(stacks: Stacks, kernel: KallsymsText | None) -> Mask:
    """Only the idle task is idle; threads that force a core to idle (idle_inject) take time from others."""
    idle: Mask = np.zeros(len(stacks.chain), np.bool_)
    if kernel is not None:
        leaves, its_stacks = stacks.idle_task_leaves()
        idle[its_stacks] = kernel.those(leaves, is_idle)
    return idle


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
    if samples.stacks:
        yield (
            f"{samples.stacks:,} samples hold a copy of the user stack (--call-graph dwarf), which is not unwound: "
            "of user code only the innermost function is shown; record with --call-graph fp, or use `perf script`"
        )
    spoilt = int(stacks.spoilt()[stacks.chain][stack].sum())
    for count, what in (
        (reading.lost, "samples were lost by the kernel: the rings were full"),
        (samples.broken, "samples are cut short, and are left out"),
        (reading.throttled, "times the kernel throttled sampling, as it took too long"),
        (spoilt, "stacks hold invalid addresses; the rest of each stack is kept"),
    ):
        if count:
            yield f"{count:,} {what}"
