"""Records of perf_event_open(2) that are no samples, each decoded into what it says: names, processes, mappings, code.

Every record ends in a trailer that says who, when and where.
Kernel: include/uapi/linux/perf_event.h, enum perf_event_type.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from functools import lru_cache

from zombiescope.kernel.perf_changes import Comm, Exit, Fork, Ksymbol, Mmap, NewCgroup, Record, Throttle

COMM, EXIT, THROTTLE, UNTHROTTLE, FORK, MMAP2, KSYMBOL, NEW_CGROUP = 3, 4, 5, 6, 7, 10, 17, 19
TRAILER = 3  # words: pid and tid, time, cpu
_UNREGISTERED = 1
_IS_EXEC, _HAS_BUILD_ID = 1 << 13, 1 << 14  # header.misc
_MOST_PATHS = 4096  # of files that are mapped again and again
_UNSIGNED = (1 << 64) - 1


def _signed(half: int) -> int:
    half &= 0xFFFFFFFF
    return half - (1 << 32) if half >> 31 else half


def _text(data: bytes, first: int, end: int) -> str:
    return os.fsdecode(data[first:end].partition(b"\0")[0])


def _comm(data: bytes, body: tuple[int, ...], begin: int) -> Comm:
    name = _text(data, begin + 16, begin + 8 * (len(body) - TRAILER))
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
    path = _path(data[begin + 72 : begin + 8 * (len(body) - TRAILER)])
    address, length, offset = body[2] & _UNSIGNED, body[3] & _UNSIGNED, body[4] & _UNSIGNED
    return Mmap(body[-2], _signed(body[1]), address, length, offset, path, build_id, device, inode)


@lru_cache(_MOST_PATHS)
def _path(raw: bytes) -> str:
    return os.fsdecode(raw.partition(b"\0")[0])


def _throttle(_data: bytes, body: tuple[int, ...], _begin: int) -> Throttle:
    return Throttle(body[1], body[-1] & 0xFFFF, body[0] & 0xFFFFFFFF == THROTTLE)


def _ksymbol(data: bytes, body: tuple[int, ...], begin: int) -> Ksymbol:
    name = _text(data, begin + 24, begin + 8 * (len(body) - TRAILER))
    gone = bool(body[2] >> 48 & _UNREGISTERED)
    return Ksymbol(body[-2], body[1] & _UNSIGNED, body[2] & 0xFFFFFFFF, name, gone)


def _new_cgroup(data: bytes, body: tuple[int, ...], begin: int) -> NewCgroup:
    path = _text(data, begin + 16, begin + 8 * (len(body) - TRAILER))
    return NewCgroup(body[-2], body[1] & _UNSIGNED, path)


DECODE: dict[int, Callable[[bytes, tuple[int, ...], int], Record]] = {
    COMM: _comm,
    FORK: _task(Fork),
    EXIT: _task(Exit),
    MMAP2: _mmap2,
    KSYMBOL: _ksymbol,
    NEW_CGROUP: _new_cgroup,
    THROTTLE: _throttle,
    UNTHROTTLE: _throttle,
}
