"""perf.data written by hand, record by record, from the format's document and not with the reader's tables."""

from __future__ import annotations

import struct
from collections.abc import Sequence

IP, TID, TIME, READ, CALLCHAIN, ID, CPU, PERIOD = 1, 2, 4, 16, 32, 64, 128, 256
IDENTIFIER, CGROUP = 1 << 16, 1 << 21
PLAIN = IP | TID | TIME | CALLCHAIN | ID | CPU | PERIOD  # what `perf record -a -g` asks for
KERNEL, USER = (1 << 64) - 128, (1 << 64) - 512  # marks in a chain
GARBAGE = 0xFFFFFFFFFFFFFE98
TRAILER = TID | TIME | ID | CPU  # of all other records
EXECED = 1 << 13


def attr(
    kind: int = 1,
    config: int = 0,
    *,
    sample_type: int = PLAIN,
    size: int = 136,
    read_format: int = 4,
    more: int = 0,
    branches: int = 0,
) -> bytes:
    """A struct perf_event_attr: cpu-clock at 999 Hz, with sample_id_all."""
    flags = 1 << 10 | 1 << 18 | more
    head = struct.pack("<IIQQQQQ", kind, size, config, 999, sample_type, read_format, flags)
    return (head.ljust(72, b"\0") + struct.pack("<Q", branches))[:size].ljust(size, b"\0")


class PerfData:
    """A file; all its records have ids and trailers as the first event asks for."""

    def __init__(self, sample_type: int = PLAIN) -> None:
        self.sample_type = sample_type
        self.records: list[bytes] = []

    def add(self, kind: int, body: bytes, misc: int = 0) -> None:
        body += bytes(-len(body) % 8)
        self.records.append(struct.pack("<IHH", kind, misc, 8 + len(body)) + body)

    def sample(
        self,
        at: int,
        *chain: int,
        cpu: int = 0,
        pid: int = 7,
        tid: int | None = None,
        event: int = 1,
        misc: int = 1,
        read: Sequence[int] = (),
        cgroup: int = 0,
        ip: int = 0,
        period: int = 1,
        behind: Sequence[int] = (),
    ) -> None:
        asked = self.sample_type
        words = [event] if asked & IDENTIFIER else []
        words += [ip] if asked & IP else []
        words += [_pair(pid, pid if tid is None else tid)] if asked & TID else []
        words += [at] if asked & TIME else []
        words += [event] if asked & ID else []
        words += [cpu] if asked & CPU else []
        words += [period] if asked & PERIOD else []
        words += read if asked & READ else []
        words += [len(chain), *chain] if asked & CALLCHAIN else []
        words += behind
        words += [cgroup] if asked & CGROUP else []
        self.add(9, struct.pack(f"<{len(words)}Q", *words), misc)

    def comm(self, at: int, pid: int, name: bytes, tid: int | None = None, *, execed: bool = False) -> None:
        body = struct.pack("<Q", _pair(pid, pid if tid is None else tid)) + name + b"\0"
        self._trailed(3, body, at, EXECED if execed else 0)

    def fork(self, at: int, pid: int, parent: int, tid: int | None = None, *, told_later: bool = False) -> None:
        thread = pid if tid is None else tid
        self._trailed(7, struct.pack("<QQQ", _pair(pid, parent), _pair(thread, parent), at), at, EXECED * told_later)

    def mmap(
        self, at: int, pid: int, start: int, length: int, offset: int, path: bytes, build_id: bytes = b"", misc: int = 2
    ) -> None:
        union = bytes([len(build_id), 0, 0, 0]) + build_id.ljust(20, b"\0") if build_id else bytes(24)
        body = struct.pack("<QQQQ", _pair(pid, pid), start, length, offset) + union + struct.pack("<II", 5, 2)
        self._trailed(10, body + path + b"\0", at, misc | (1 << 14) * bool(build_id))

    def cgroup(self, at: int, number: int, path: bytes) -> None:
        self._trailed(19, struct.pack("<Q", number) + path + b"\0", at)

    def ksymbol(self, at: int, address: int, length: int, name: bytes, *, gone: bool = False, longer: int = 0) -> None:
        """`longer`: bytes by which the kernel makes such a record too long."""
        body = struct.pack("<QIHH", address, length, 1, gone) + name + b"\0"
        self._trailed(17, body, at, behind=bytes(longer))

    def lost(self, at: int, count: int) -> None:
        self._trailed(2, struct.pack("<QQ", 1, count), at)

    def _trailed(self, kind: int, body: bytes, at: int, misc: int = 0, behind: bytes = b"") -> None:
        asked = self.sample_type
        words = [_pair(0, 0)] if asked & TID else []
        words += [at] if asked & TIME else []
        words += [1] if asked & ID else []
        words += [0] if asked & CPU else []
        words += [1] if asked & IDENTIFIER else []
        body += bytes(-len(body) % 8)
        self.add(kind, body + struct.pack(f"<{len(words)}Q", *words) + behind, misc)

    def data(self) -> bytes:
        return b"".join(self.records)

    def file(
        self,
        events: Sequence[tuple[bytes, Sequence[int]]] = (),
        *,
        magic: bytes = b"PERFILE2",
        features: dict[int, bytes] | None = None,
        short: bool = False,
        killed: bool = False,
    ) -> bytes:
        """Head, ids, events, records, facts; `short` as it was in 2009, `killed` before the size was written."""
        events = events or [(attr(sample_type=self.sample_type), [1])]
        head = 72 if short else 104
        ids = b"".join(struct.pack(f"<{len(its)}Q", *its) for _, its in events)
        at, attrs = head, b""
        for raw, its in events:
            attrs += raw + struct.pack("<QQ", at, 8 * len(its))
            at += 8 * len(its)
        data, facts = self.data(), features or {}
        start = at + len(attrs)
        bits = sum(1 << bit for bit in facts)
        found = struct.pack(
            "<8s8Q", magic, head, len(events[0][0]) + 16, at, len(attrs), start, 0 if killed else len(data), 0, 0
        )
        found += b"" if short else bits.to_bytes(32, "little")
        found += ids + attrs + data
        place, table, contents = len(found) + 16 * len(facts), b"", b""
        for bit in sorted(facts):
            table += struct.pack("<QQ", place + len(contents), len(facts[bit]))
            contents += facts[bit]
        return found + table + contents

    def piped(self, *attrs: bytes) -> bytes:
        """The same, as it comes through a pipe."""
        told = PerfData(self.sample_type)
        for raw in attrs or (attr(sample_type=self.sample_type),):
            told.add(64, raw + struct.pack("<Q", 1))
        return b"PERFILE2" + struct.pack("<Q", 16) + told.data() + self.data()


def text_fact(text: bytes) -> bytes:
    """Host name and kernel: a length, then so many bytes with zeros behind the text."""
    return struct.pack("<I", 64) + text.ljust(64, b"\0")


def build_id_fact(path: bytes, build_id: bytes) -> bytes:
    body = struct.pack("<i", -1) + build_id.ljust(20, b"\0") + bytes([len(build_id), 0, 0, 0]) + path + b"\0"
    body += bytes(-len(body) % 8)
    return struct.pack("<IHH", 0, 1 << 15 | 2, 8 + len(body)) + body


def event_fact(*events: tuple[bytes, bytes, Sequence[int]]) -> bytes:
    """The names of events: how many, the size of each; of each itself, how many ids, its name as a text, the ids."""
    found = struct.pack("<II", len(events), len(events[0][0]))
    for raw, name, ids in events:
        found += raw + struct.pack("<I", len(ids)) + text_fact(name) + struct.pack(f"<{len(ids)}Q", *ids)
    return found


def _pair(low: int, high: int) -> int:
    return (high & 0xFFFFFFFF) << 32 | (low & 0xFFFFFFFF)


def one_of_everything() -> PerfData:
    """Two programs, a thread, a fork, an exec; kernel, user and spoilt chains; a lost record, unknown ones."""
    made = PerfData(PLAIN | CGROUP)
    made.mmap(0, -1, 0xFFFFFFFF81000000, 1 << 24, 0xFFFFFFFF81000000, b"[kernel.kallsyms]_text", misc=1)
    made.fork(0, 7, 1, told_later=True)
    made.comm(0, 7, b"bash")
    made.mmap(0, 7, 0x400000, 0x3000, 0, b"/bin/first")
    made.cgroup(0, 9, b"/kubepods/pod1")
    made.sample(1000, KERNEL, 0xFFFFFFFF81000110, 0xFFFFFFFF81000210, USER, 0x401010, cgroup=9)
    made.fork(1500, 8, 7)
    made.sample(1600, USER, 0x401010, 0x401120, pid=8, cgroup=9)
    made.sample(1700, KERNEL, 0xFFFFFFFF81000310, cpu=1, pid=0)
    made.add(77, b"from the future")
    made.comm(2000, 8, b"second_program_x", execed=True)
    made.mmap(2100, 8, 0x400000, 0x3000, 0, b"/bin/second")
    made.sample(2600, USER, 0x401010, 0x401120, pid=8, cgroup=9)
    made.fork(2700, 8, 8, 88)
    made.comm(2800, 8, b"worker", 88)
    made.sample(2900, KERNEL, 0xFFFFFFFF81000210, USER, 0x401010, GARBAGE, 0x401120, pid=8, tid=88, cpu=1, cgroup=11)
    made.add(71, struct.pack("<QQ", 16, 0) + bytes(24))  # AUXTRACE, and what follows it
    made.records.append(b"\xff" * 16)
    made.lost(3000, 5)
    made.sample(3100, KERNEL, 0xFFFFFFFF81000210, pid=99)
    return made
