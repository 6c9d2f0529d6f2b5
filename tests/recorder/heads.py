"""Heads made by hand: what a capture would have appended, in a few lines."""

from __future__ import annotations

import io
import struct
from collections import deque
from collections.abc import Iterator, Sequence

from zombiescope.recorder.head import LOST, NAME, RING, HeadReader, HeadWriter, Record

AHEAD = 1_794_000_000 * 10**9  # unix time minus the monotonic clock
KERNEL, USER = (1 << 64) - 128, (1 << 64) - 512
SECOND = 10**9
META = {"format": 2, "node": "a", "kernel": "6.1", "boot_id": "another", "hz": 100, "sampled": "cpu-clock"}


class Head:
    """Appends at a time in seconds since AHEAD."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self.writer = HeadWriter(self._parts.extend)
        self.writer.clock(0, AHEAD)

    def fetched(self, probe: str, at: float, content: bytes) -> None:
        self.writer.fetched(self.writer.source({"probe": probe}, 0), round(at * SECOND), content)

    def sample(
        self,
        probe: str,
        at: float,
        readings: Sequence[tuple[str, str, float, float, str, str]] = (),
        blind: Sequence[tuple[str, str, str, str]] = (),
        cost: float = 0.0,
    ) -> None:
        source = self.writer.source({"probe": probe}, 0)
        unix = AHEAD // SECOND + at
        self.writer.sample(source, round(at * SECOND), taken=unix, readings=readings, blind=blind, cost=cost)

    def ring(self, cpu: int, at: float, *records: bytes, hz: int = 100) -> None:
        source = self.ring_source(cpu, hz)
        self.writer.put(RING, source, round(at * SECOND), b"".join(records))

    def lost(self, cpu: int, at: float, count: int, hz: int = 100) -> None:
        self.writer.put(LOST, self.ring_source(cpu, hz), round(at * SECOND), struct.pack("<Q", count))

    def ring_source(self, cpu: int, hz: int) -> int:
        return self.writer.source({"ring": cpu, "event": "cpu-clock", "hz": hz, "cgroup": True}, 0)

    def bytes(self) -> bytes:
        self.writer.flush()
        return b"".join(self._parts)


def records(head: bytes) -> Iterator[Record]:
    """All records that are whole, in the order they were written."""
    return iter(HeadReader(io.BytesIO(head)))


def of_another_boot(head: bytes) -> bytes:
    """The same head, as if its machine had been started again since."""
    parts: list[bytes] = []
    writer = HeadWriter(parts.extend)
    for it in records(head):
        boot = it.kind == NAME and b'"boot"' in bytes(it.content)
        writer.put(it.kind, it.source, it.at, b'{"boot": "another"}' if boot else bytes(it.content))
    writer.flush()
    return b"".join(parts)


def whole(head: bytes) -> int:
    """How many of its bytes are intact."""
    reader = HeadReader(io.BytesIO(head))
    deque(reader, maxlen=0)
    return reader.end


def record(kind: int, body: bytes, misc: int = 0) -> bytes:
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def trailer(pid: int, at: float, cpu: int = 0) -> bytes:
    return struct.pack("<iiqII", pid, pid, round(at * SECOND), cpu, 0)


def padded(text: bytes) -> bytes:
    return text + bytes(8 - len(text) % 8)


def ran(
    pid: int,
    at: float,
    *user: int,
    kernel: Sequence[int] = (),
    cpu: int = 0,
    tid: int | None = None,
    cgroup: int = 0,
) -> bytes:
    """A sample: addresses leaf first."""
    chain = [*([KERNEL, *kernel] if kernel else ()), *([USER, *user] if user else ())]
    ip = chain[1] if chain else 0
    fixed = (ip, pid, pid if tid is None else tid, round(at * SECOND), cpu, 0, 1000, len(chain))
    return record(9, struct.pack("<QiiqIIqQ", *fixed) + struct.pack(f"<{len(chain) + 1}Q", *chain, cgroup))


def named(pid: int, at: float, comm: str, *, execed: bool = False) -> bytes:
    body = struct.pack("<ii", pid, pid) + padded(comm.encode()) + trailer(pid, at)
    return record(3, body, misc=1 << 13 if execed else 0)


def forked(pid: int, parent: int, at: float) -> bytes:
    return record(7, struct.pack("<iiiiq", pid, parent, pid, parent, round(at * SECOND)) + trailer(parent, at))


def exited(pid: int, at: float) -> bytes:
    return record(4, struct.pack("<iiiiq", pid, 1, pid, 1, round(at * SECOND)) + trailer(pid, at))


def mapped(pid: int, at: float, start: int, path: str, length: int = 0x10000, offset: int = 0) -> bytes:
    body = struct.pack("<iiQQQ", pid, pid, start, length, offset) + struct.pack("<IIQQ", 8, 1, 77, 1) + bytes(8)
    return record(10, body + padded(path.encode()) + trailer(pid, at))


def new_cgroup(number: int, path: str, at: float) -> bytes:
    return record(19, struct.pack("<Q", number) + padded(path.encode()) + trailer(1, at))


def throttled(cpu: int, at: float) -> bytes:
    return record(5, struct.pack("<qQQ", round(at * SECOND), 1, 1) + trailer(0, at, cpu=cpu))
