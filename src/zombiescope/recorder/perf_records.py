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
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from zombiescope.core.errors import Unparsable
from zombiescope.kernel.perf_changes import Comm, Exit, Fork, Ksymbol, Mmap, NewCgroup, Record, Throttle
from zombiescope.kernel.perf_open import SOURCE

# Markers among the addresses of a call chain (enum perf_callchain_context); every address is below the lowest marker.
CONTEXT_KERNEL, CONTEXT_USER, LOWEST_CONTEXT = -128, -512, -4095

_LOST, _COMM, _EXIT, _THROTTLE, _UNTHROTTLE, _FORK, _SAMPLE, _MMAP2, _LOST_SAMPLES = 2, 3, 4, 5, 6, 7, 9, 10, 13
_KSYMBOL, _UNREGISTERED, _NEW_CGROUP = 17, 1, 19
_IS_EXEC, _HAS_BUILD_ID = 1 << 13, 1 << 14  # header.misc
_TRAILER = 3  # words: pid and tid, time, cpu
_CHAIN = 7  # the first address of a sample's chain; the word before it counts them
_KIND = 0xFFFFFFFF
_ANYONE, _NO_CGROUP = bytes(4), bytes(8)
_MOST_PATHS = 4096  # of files that are mapped again and again
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
_LEAST = {_LOST: 6, _COMM: 6, _EXIT: 7, _THROTTLE: 7, _UNTHROTTLE: 7, _FORK: 7, _MMAP2: 13, _LOST_SAMPLES: 5}
_LEAST |= {_SAMPLE: _CHAIN, _KSYMBOL: 7, _NEW_CGROUP: 6}


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Parsed:
    """The samples as columns, in order of time, and the rest.

    A chain is one bytes object: four bytes with the pid, or 0 if no addresses of the process are in it; then the
    addresses and markers. So chains of the kernel alone are equal for every process, and chains with addresses of two
    processes never are.
    """

    time_ns: npt.NDArray[np.int64]
    cpu: npt.NDArray[np.uint16]
    pid: npt.NDArray[np.int32]
    tid: npt.NDArray[np.int32]
    ip: npt.NDArray[np.uint64]
    period: npt.NDArray[np.int64]
    cgroup: npt.NDArray[np.uint64]
    chains: list[bytes]
    records: list[Record]
    lost: list[int]  # for each part, as its records say
    damage: list[Unparsable]  # at most one for each part; the records before it are kept


def parse(parts: Sequence[bytes], *, cgroup: bool, starts: npt.NDArray[np.int64] | None = None) -> Parsed:
    """The records of several rings, one part each; `cgroup` if samples have it.

    `starts`: at which word of all parts together each record begins, where that is known: then they are decoded by
    column, if nothing about them is odd.
    """
    chains: list[bytes] = []
    records: list[Record] = []
    data = b"".join([part if len(part) % 8 == 0 else part[: len(part) & ~7] for part in parts])
    ends = list(accumulate(len(part) >> 3 for part in parts))
    bad: list[int | None] = [None] * len(parts)
    columns = _columns(data, ends, starts, chains, records, cgroup) if starts is not None else None
    if columns is not None:
        rows, lost = columns
    else:
        fixed: list[bytes] = []
        lost, bad = _walk(data, ends, fixed, chains, records, cgroup)
        rows = np.frombuffer(b"".join(fixed), _FIXED)
    order = rows["time"].argsort(kind="stable")
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
        chains=[chains[at] for at in order.tolist()],
        records=records,
        lost=lost,
        damage=[
            _damage(part, number, (len(part) >> 3) if at is None else at - end + (len(part) >> 3))
            for number, (part, end, at) in enumerate(zip(parts, ends, bad, strict=True))
            if at is not None or len(part) % 8
        ],
    )


# Appends what _walk appends, but gives the fixed parts as a table; None, with nothing appended, if a record is not as
# it should be. With thousands of samples several times as fast as _walk.
def _columns(
    data: bytes,
    ends: list[int],
    starts: npt.NDArray[np.int64],
    chains: list[bytes],
    records: list[Record],
    cgroup: bool,
) -> tuple[npt.NDArray[np.void], list[int]] | None:
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
    at = starts[kinds == _SAMPLE]
    first, last = at + _CHAIN, at + sizes[kinds == _SAMPLE] - cgroup
    if (last < first).any() or (words[first - 1] != (last - first).astype(np.uint64)).any():
        return None
    fixed = np.zeros((len(at), 6), np.uint64)
    fixed[:, :5] = words[at[:, None] + np.arange(1, 6)]
    if cgroup:
        fixed[:, 5] = words[last]
    rows = fixed.view(_FIXED).reshape(-1)
    markers = np.flatnonzero(words == np.uint64(CONTEXT_USER + (1 << 64)))
    of_user = np.searchsorted(markers, first) < np.searchsorted(markers, last)
    pids = np.where(of_user, rows["pid"], 0).astype("<i4").tobytes()
    places = zip(range(0, len(pids), 4), (8 * first).tolist(), (8 * last).tolist(), strict=True)
    chains += [pids[pid : pid + 4] + data[begin:end] for pid, begin, end in places]
    for place in np.flatnonzero(_DECODED[np.minimum(kinds, _OTHER)]).tolist():
        begin, size = 8 * int(starts[place]), int(sizes[place])
        records.append(_DECODE[int(kinds[place])](data, struct.unpack_from(f"={size}q", data, begin), begin))
    lost = [0] * len(ends)
    for kind, where in ((_LOST, 2), (_LOST_SAMPLES, 1)):
        for place in starts[kinds == kind].tolist():
            lost[bisect_right(ends, place)] += int(words[place + where])
    return rows, lost


# Appends the records; for each part gives how much it says was lost, and the first invalid word. What follows
# that word is noise, as the size of a bad record cannot be trusted. This is the hot loop: under 1 µs a sample. By
# column it takes sixty calls of numpy, 500 µs on a busy machine with cold caches: slower below 600 samples a read.
def _walk(
    data: bytes,
    ends: list[int],
    fixed: list[bytes],
    chains: list[bytes],
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
                    pid = data[begin + 16 : begin + 20] if marker < last else _ANYONE
                    chains.append(pid + data[8 * first : 8 * last])
                    fixed.append(data[begin + 8 : begin + 48] + (data[8 * last : 8 * stop] or _NO_CGROUP))
                elif kind in _DECODE:
                    records.append(_DECODE[kind](data, struct.unpack_from(f"={stop - at}q", data, begin), begin))
                elif kind == _LOST:
                    lost += words[at + 2]
                elif kind == _LOST_SAMPLES:
                    lost += words[at + 1]
                at = stop
            told.append(lost)
            bad.append(at if at < end else None)
    return told, bad


def _damage(part: bytes, number: int, at: int) -> Unparsable:
    head = int.from_bytes(part[8 * at : 8 * at + 8], "little")
    words = f"kind {head & _KIND} with {head >> 48} bytes at byte {8 * at} of the {len(part)} from ring {number}"
    return Unparsable(SOURCE, 8 * at, words)


def _signed(half: int) -> int:
    half &= 0xFFFFFFFF
    return half - (1 << 32) if half >> 31 else half


def _text(data: bytes, first: int, end: int) -> str:
    return os.fsdecode(data[first:end].partition(b"\0")[0])


def _comm(data: bytes, body: tuple[int, ...], begin: int) -> Comm:
    name = _text(data, begin + 16, begin + 8 * (len(body) - _TRAILER))
    return Comm(body[-2], _signed(body[1]), _signed(body[1] >> 32), name, bool(body[0] >> 32 & _IS_EXEC))


def _task(kind: type[Fork] | type[Exit]) -> Callable[[bytes, tuple[int, ...], int], Record]:
    def decode(_data: bytes, body: tuple[int, ...], _begin: int) -> Record:
        return kind(body[3], _signed(body[1]), _signed(body[2]), _signed(body[1] >> 32), _signed(body[2] >> 32))

    return decode


# header | pid, tid | address | length | offset | device or build-id (3 words) | protection | path | trailer
def _mmap2(data: bytes, body: tuple[int, ...], begin: int) -> Mmap:
    build_id, device, inode = b"", (0, 0), 0
    if body[0] >> 32 & _HAS_BUILD_ID:
        build_id = data[begin + 44 : begin + 44 + min(data[begin + 40], 20)]
    else:
        device, inode = (body[5] & 0xFFFFFFFF, body[5] >> 32 & 0xFFFFFFFF), body[6] & _UNSIGNED
    path = _path(data[begin + 72 : begin + 8 * (len(body) - _TRAILER)])
    address, length, offset = body[2] & _UNSIGNED, body[3] & _UNSIGNED, body[4] & _UNSIGNED
    return Mmap(body[-2], _signed(body[1]), address, length, offset, path, build_id, device, inode)


@lru_cache(_MOST_PATHS)
def _path(raw: bytes) -> str:
    return os.fsdecode(raw.partition(b"\0")[0])


def _throttle(_data: bytes, body: tuple[int, ...], _begin: int) -> Throttle:
    return Throttle(body[1], body[-1] & 0xFFFF, body[0] & 0xFFFFFFFF == _THROTTLE)


def _ksymbol(data: bytes, body: tuple[int, ...], begin: int) -> Ksymbol:
    name = _text(data, begin + 24, begin + 8 * (len(body) - _TRAILER))
    gone = bool(body[2] >> 48 & _UNREGISTERED)
    return Ksymbol(body[-2], body[1] & _UNSIGNED, body[2] & 0xFFFFFFFF, name, gone)


def _new_cgroup(data: bytes, body: tuple[int, ...], begin: int) -> NewCgroup:
    path = _text(data, begin + 16, begin + 8 * (len(body) - _TRAILER))
    return NewCgroup(body[-2], body[1] & _UNSIGNED, path)


_UNSIGNED = (1 << 64) - 1
_DECODE: dict[int, Callable[[bytes, tuple[int, ...], int], Record]] = {
    _COMM: _comm,
    _FORK: _task(Fork),
    _EXIT: _task(Exit),
    _MMAP2: _mmap2,
    _KSYMBOL: _ksymbol,
    _NEW_CGROUP: _new_cgroup,
    _THROTTLE: _throttle,
    _UNTHROTTLE: _throttle,
}
_OTHER = 63  # the kernel has 22 kinds; all above are taken for one of which nothing is known
_LEAST_OF = np.array([_LEAST.get(kind, 1) for kind in range(_OTHER + 1)])
_DECODED = np.array([kind in _DECODE for kind in range(_OTHER + 1)])
