"""The names of all threads that are there when sampling begins, as records of the kind that the kernel writes later.

Who ends before a head is settled cannot be asked any more: only what was read at the start names its samples. perf does
the same. Overhead: 15 µs a thread, once; of many, the first thread of each process comes first.
Standard library only: the capture process imports this.
"""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator

from zombiescope.core import Host, Unreadable
from zombiescope.core.host import MOST_PROCESSES

MOST = 16_384  # threads
SECONDS = 0.25  # of CPU, at the most
_COMM = 3
_HEADER = struct.Struct("<IHHII")  # kind, misc, size; process, thread
_TRAILER = struct.Struct("<IIQQ")  # process, thread; time; core
_WORD = 8


def names(host: Host, at: int) -> bytes:
    """Records of perf_event_open(2), as of a time of the monotonic clock."""
    found, until = list[bytes](), time.thread_time() + SECONDS
    for pid, tid in _threads(host):
        if len(found) >= 2 * MOST or time.thread_time() > until:
            break
        try:
            name = host.read_short(f"/proc/{pid}/task/{tid}/comm").rstrip(b"\n")
        except Unreadable:  # it has ended
            continue
        words = len(name) // _WORD + 1  # with a NUL behind it
        size = _HEADER.size + _WORD * words + _TRAILER.size
        found.append(_HEADER.pack(_COMM, 0, size, pid, tid) + name.ljust(_WORD * words, b"\0"))
        found.append(_TRAILER.pack(pid, tid, at, 0))
    return b"".join(found)


def _threads(host: Host) -> Iterator[tuple[int, int]]:
    """Of each process the first; then all others."""
    pids = [int(it) for it in host.first_names("/proc", MOST_PROCESSES)[0] if it.isdecimal()]
    yield from ((pid, pid) for pid in pids)
    for pid in pids:
        try:
            others = host.first_names(f"/proc/{pid}/task", MOST)[0]
        except Unreadable:
            continue
        yield from ((pid, int(it)) for it in others if it.isdecimal() and int(it) != pid)
