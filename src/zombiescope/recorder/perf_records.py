"""What the kernel writes into the rings of perf_event_open(2), decoded into columns.

A ring is a stream of records: eight bytes of header (kind, flags, size), a body, and on all but samples a trailer that
says who, when and where. Every size is a multiple of eight, so a ring is an array of 64-bit words. Of each sample two
pieces are cut out, the fixed part and the call chain; nothing is done per address.

A sample, with the sample_type that perf_open asks for, in words:

    header | ip | pid, tid | time | cpu | period | nr | nr addresses, leaf first, with markers | cgroup, where offered

Kernel: include/uapi/linux/perf_event.h, enum perf_event_type.
"""

from __future__ import annotations

import os
import struct
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import accumulate
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from zombiescope.core.errors import Unparsable
from zombiescope.kernel.perf_changes import Record
from zombiescope.kernel.perf_open import SOURCE
from zombiescope.recorder.task_records import (
    COMM,
    DECODE,
    EXIT,
    FORK,
    KSYMBOL,
    MMAP2,
    NEW_CGROUP,
    THROTTLE,
    UNTHROTTLE,
)

# Markers among the addresses of a call chain (enum perf_callchain_context); every address is below the lowest marker.
CONTEXT_KERNEL, CONTEXT_USER, LOWEST_CONTEXT = -128, -512, -4095

_LOST, _SAMPLE, _LOST_SAMPLES = 2, 9, 13
_CHAIN = 7  # the first address of a sample's chain; the word before it counts them
_KIND = 0xFFFFFFFF
_NO_CGROUP = bytes(8)
Words = npt.NDArray[np.uint64]
Ints = npt.NDArray[np.int64]
_FIXED = np.dtype(
    [
        ("ip", "<u8"),
        ("pid", "<i4"),
        ("tid", "<i4"),
        ("time", "<i8"),
        ("cpu", "<u4"),
        ("reserved", "<u4"),
        ("period", "<i8"),
        ("cgroup", "<u8"),
    ]
)
# The fewest words a record of each kind can have, header and trailer included; any other kind is a header at least.
_LEAST = {_LOST: 6, COMM: 6, EXIT: 7, THROTTLE: 7, UNTHROTTLE: 7, FORK: 7, MMAP2: 13, _LOST_SAMPLES: 5}
_LEAST |= {_SAMPLE: _CHAIN, KSYMBOL: 7, NEW_CGROUP: 6}


class Chains(NamedTuple):
    """Of each sample its addresses and markers, as they stand among all words that were read."""

    words: Words
    first: Ints  # where each begins
    last: Ints  # just after its end
    pids: npt.NDArray[np.int32]  # 0 if no addresses of the process are in it

    def keys(self) -> Words:
        """The same for the same chain of the same process.

        A polynomial in the words, modulo 2^64, by sums over all words that were read, headers included: each begins
        where the sum does. At an odd number that is drawn anew each time we run: somebody who chooses addresses can
        at most make two of their own stacks look the same.
        """
        sums = np.zeros(len(self.words) + 1, np.uint64)
        np.cumsum(self.words * np.resize(_POWERS, len(self.words)), out=sums[1:])
        # The powers begin again after each _PERIOD words; what is behind that place has too few.
        again = np.minimum((self.first // _PERIOD + 1) * _PERIOD, self.last)
        keys: Words = sums[again] - sums[self.first] + (sums[self.last] - sums[again]) * _NEXT_POWER
        keys *= _INVERSES[self.first % _PERIOD]
        lengths = (self.last - self.first).astype(np.uint64)
        keys += self.pids.astype(np.uint64) * np.uint64(_OF_PID) + lengths * np.uint64(_OF_LENGTH)
        return keys


def _powers(of: int) -> Words:
    powers = np.full(_PERIOD, of, np.uint64)
    powers[0] = 1
    return np.multiply.accumulate(powers)


_PERIOD = 1 << 14  # more words than a record can have
_BASE, _OF_PID, _OF_LENGTH = (it | 1 for it in struct.unpack("=3Q", os.urandom(24)))
_POWERS, _INVERSES = _powers(_BASE), _powers(pow(_BASE, -1, 1 << 64))
_NEXT_POWER = np.uint64(pow(_BASE, _PERIOD, 1 << 64))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parsed:
    """The samples as columns, in order of time, and the rest.

    Chains of the kernel alone are equal for every process, and chains with addresses of two processes never are.
    """

    time_ns: npt.NDArray[np.int64]
    cpu: npt.NDArray[np.uint16]
    pid: npt.NDArray[np.int32]
    tid: npt.NDArray[np.int32]
    ip: npt.NDArray[np.uint64]
    period: npt.NDArray[np.int64]
    cgroup: npt.NDArray[np.uint64]
    chains: Chains
    records: list[Record]
    lost: list[int]  # for each part, as its records say
    damage: list[Unparsable]  # at most one for each part; the records before it are kept


def parse(parts: Sequence[bytes], *, cgroup: bool, starts: npt.NDArray[np.int64] | None = None) -> Parsed:
    """The records of several rings, one part each; `cgroup` if samples have it.

    `starts`: at which word of all parts together each record begins, where that is known: then they are decoded by
    column, if nothing about them is odd.
    """
    records: list[Record] = []
    data = b"".join([part if len(part) % 8 == 0 else part[: len(part) & ~7] for part in parts])
    ends = list(accumulate(len(part) >> 3 for part in parts))
    bad: list[int | None] = [None] * len(parts)
    columns = _columns(data, ends, starts, records, cgroup) if starts is not None else None
    if columns is not None:
        rows, places, lost = columns
    else:
        fixed, chains = list[bytes](), list[tuple[int, int, bool]]()
        lost, bad = _walk(data, ends, fixed, chains, records, cgroup)
        rows, places = np.frombuffer(b"".join(fixed), _FIXED), np.array(chains, np.int64).reshape(-1, 3)
    order = rows["time"].argsort(kind="stable")
    first, last, of_user = places[order].T
    rows = rows[order]
    records.sort(key=lambda record: record.time_ns)
    return Parsed(
        time_ns=rows["time"].copy(),
        cpu=rows["cpu"].astype(np.uint16),
        pid=rows["pid"].copy(),
        tid=rows["tid"].copy(),
        ip=rows["ip"].copy(),
        period=rows["period"].copy(),
        cgroup=rows["cgroup"].copy(),
        chains=Chains(np.frombuffer(data, np.uint64), first, last, np.where(of_user, rows["pid"], 0).astype(np.int32)),
        records=records,
        lost=lost,
        damage=[
            _damage(part, number, (len(part) >> 3) if at is None else at - end + (len(part) >> 3))
            for number, (part, end, at) in enumerate(zip(parts, ends, bad, strict=True))
            if at is not None or len(part) % 8
        ],
    )


# Appends the records that _walk appends, and gives the rest as tables; None, with nothing appended, if a record is not
# as it should be. With thousands of samples several times as fast as _walk.
def _columns(
    data: bytes, ends: list[int], starts: Ints, records: list[Record], cgroup: bool
) -> tuple[npt.NDArray[np.void], Ints, list[int]] | None:
    words = np.frombuffer(data, np.uint64)
    heads = words[starts]
    sizes, kinds = (heads >> np.uint64(51)).astype(np.int64), heads.astype(np.uint32)
    follow = np.append(starts, len(words))
    if (
        not len(starts)
        or starts[0]
        or (starts + sizes != follow[1:]).any()
        or (heads >> np.uint64(48) & np.uint64(7)).any()
    ):
        return None
    if (follow[np.searchsorted(follow, ends)] != ends).any() or (sizes < _LEAST_OF[np.minimum(kinds, _OTHER)]).any():
        return None
    samples = starts[kinds == _SAMPLE]
    first, last = samples + _CHAIN, samples + sizes[kinds == _SAMPLE] - cgroup
    if (last < first).any() or (words[first - 1] != (last - first).astype(np.uint64)).any():
        return None
    fixed = np.zeros((len(samples), 6), np.uint64)
    fixed[:, :5] = words[samples[:, None] + np.arange(1, 6)]
    if cgroup:
        fixed[:, 5] = words[last]
    rows = fixed.view(_FIXED).reshape(-1)
    markers = np.flatnonzero(words == np.uint64(CONTEXT_USER + (1 << 64)))
    of_user = np.searchsorted(markers, first) < np.searchsorted(markers, last)
    decoded = _DECODED[np.minimum(kinds, _OTHER)]
    for kind, size, at in zip(*(it[decoded].tolist() for it in (kinds, sizes, starts)), strict=True):
        records.append(DECODE[kind](data, _words_of(size).unpack_from(data, 8 * at), 8 * at))
    lost = [0] * len(ends)
    for kind, where in ((_LOST, 2), (_LOST_SAMPLES, 1)):
        for place in starts[kinds == kind].tolist():
            lost[bisect_right(ends, place)] += int(words[place + where])
    return rows, np.stack([first, last, of_user], axis=1), lost


# Appends the records, and where chains begin and end; for each part gives how much it says was lost, and the first
# invalid word. What follows that word is noise, as the size of a bad record cannot be trusted. This is the hot loop:
# under 1 µs a sample. By column it takes sixty calls of numpy, 500 µs on a busy machine with cold caches: slower below
# 600 samples a read.
def _walk(
    data: bytes,
    ends: list[int],
    fixed: list[bytes],
    chains: list[tuple[int, int, bool]],
    records: list[Record],
    cgroup: bool,
) -> tuple[list[int], list[int | None]]:
    # A marker's value in other places (a path, a register) is recognised by its position.
    found = (np.frombuffer(data, np.int64) == CONTEXT_USER).nonzero()[0].tolist()
    markers, never = iter(found), len(data)
    marker = next(markers, never)
    told: list[int] = []
    bad: list[int | None] = []
    with memoryview(data) as raw, raw.cast("Q") as words:
        for start, end in zip([0, *ends], ends, strict=False):
            at, lost = start, 0
            while at < end:
                head = words[at]
                stop = at + (head >> 51)
                kind = head & _KIND
                if stop > end or head >> 48 & 7 or stop - at < _LEAST.get(kind, 1):
                    break
                begin = 8 * at
                if kind == _SAMPLE:
                    first, last = at + _CHAIN, stop - cgroup
                    if words[first - 1] != last - first:
                        break
                    while marker < first:
                        marker = next(markers, never)
                    chains.append((first, last, marker < last))
                    fixed.append(data[begin + 8 : begin + 48] + (data[8 * last : 8 * stop] or _NO_CGROUP))
                elif kind in DECODE:
                    records.append(DECODE[kind](data, _words_of(stop - at).unpack_from(data, begin), begin))
                elif kind == _LOST:
                    lost += words[at + 2]
                elif kind == _LOST_SAMPLES:
                    lost += words[at + 1]
                at = stop
            told.append(lost)
            bad.append(at if at < end else None)
    return told, bad


@cache
def _words_of(many: int) -> struct.Struct:
    return struct.Struct(f"={many}q")


def _damage(part: bytes, number: int, at: int) -> Unparsable:
    head = int.from_bytes(part[8 * at : 8 * at + 8], "little")
    words = f"kind {head & _KIND} with {head >> 48} bytes at byte {8 * at} of the {len(part)} from ring {number}"
    return Unparsable(SOURCE, 8 * at, words)


_OTHER = 63  # the kernel has 22 kinds; all above are taken for one of which nothing is known
_LEAST_OF = np.array([_LEAST.get(kind, 1) for kind in range(_OTHER + 1)])
_DECODED = np.array([kind in DECODE for kind in range(_OTHER + 1)])
