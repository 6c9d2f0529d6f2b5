r"""The kernel log from /dev/kmsg: one record a read, with its time converted to unix time.

Which clock: printk uses local_clock(), the scheduler's clock. It starts near CLOCK_MONOTONIC and, like it, stops while
the machine sleeps, but NTP slews only CLOCK_MONOTONIC. So the two drift apart by the error of the crystal, about 10 to
50 ppm, and on a node that is up for a month a line would be wrong by a minute. So the offset is measured: perf events
carry the same local_clock(), and renaming our own thread to the name it has makes the kernel write one into our ring.
Read between two reads of CLOCK_MONOTONIC, this is exact to some microseconds. A line is then off by at most 500 ppm
(NTP's fastest slew) of its age or of `_ANCHOR` seconds, whichever is more: 5 ms for new lines, 0.3 s for lines from
ten minutes ago, and far less while NTP does not slew. Where perf events are refused, both clocks are assumed equal, and
a new line is placed between the last sample and this one, so it is off by at most one sampling interval.

Kernel: Documentation/ABI/testing/dev-kmsg; reading since e11fea92e13f ("kmsg: export printk records to the /dev/kmsg
    interface", in v3.5). A line printed without its newline appears with the next one.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import platform
import re
import struct
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, replace

from zombiescope.core import Unparsable, Unreadable
from zombiescope.kernel.text import count, lines

SOURCE = "/dev/kmsg"
_LARGEST = 1 << 14  # bytes: a record has at most 8 KB (CONSOLE_EXT_LOG_MAX), and a smaller buffer would be refused
_SCAN = 50_000  # records skipped in one call, 1.2 µs each: the ring of a 256-core machine holds about 15,000
_ANCHOR = 10.0  # seconds for which a measured offset of the clocks is used
_TRIES = 3  # the least disturbed one counts
_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241, "riscv64": 241, "ppc64le": 319}  # all little-endian, as the flags
_ESCAPED = re.compile(rb"\\x([0-9a-f]{2})")


@dataclass(frozen=True, slots=True)
class Line:
    """One record of the log."""

    level: int  # 0 emergency … 7 debug
    number: int  # the kernel's own count of records
    at: float  # seconds; of printk's clock as parsed, unix time as read
    text: str  # may hold any byte


class KernelLog:
    """The log, kept open. `lost` counts records that were overwritten, or exceeded the number asked for."""

    source = SOURCE

    def __init__(self, path: str = SOURCE) -> None:
        try:
            self._handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError as error:
            raise Unreadable(SOURCE, (error.strerror or "").lower()) from error
        self._begin()

    def _begin(self) -> None:
        self.lost = 0
        self._next: int | None = None
        self._offset = self._drained = float("-inf")  # unix seconds
        self._exact = False
        self._measured = float("-inf")

    def close(self) -> None:
        os.close(self._handle)

    def past(self, seconds: float, most: int) -> list[Line]:
        """What was logged in the last seconds, the latest `most` lines. To be called first."""
        self._anchor()
        since = time.time() - seconds
        kept: deque[Line] = deque(maxlen=most)
        for record in self._records():
            # Cheaper than a full parse, for records that are too old.
            usec = record.split(b",", 3)[2:3]
            if usec and usec[0].isdigit() and int(usec[0][:20]) / 1e6 + self._offset < since:
                continue
            line = parse(record.decode("utf-8", "surrogateescape"))
            self.lost += len(kept) == most
            kept.append(replace(line, at=line.at + self._offset))
        self._drained = time.time()
        return list(kept)

    def read(self, most: int) -> list[Line]:
        """All lines since the last call, the first `most` of them; the rest are skipped and counted as lost."""
        found: list[Line] = []
        since = self._drained
        for record in self._records():
            if len(found) < most:
                found.append(parse(record.decode("utf-8", "surrogateescape")))
            else:
                self.lost += 1
        self._drained = time.time()
        if not found:
            return found
        self._anchor()
        return [replace(line, at=self._unix(line.at, since)) for line in found]

    def _records(self) -> Iterator[bytes]:
        for _ in range(_SCAN):
            try:
                record = os.read(self._handle, _LARGEST)
            except BlockingIOError:
                return
            except BrokenPipeError:
                continue  # the next records were overwritten; the record numbers show how many
            except OSError as error:
                raise Unreadable(SOURCE, (error.strerror or "").lower()) from error
            if not record:
                return
            number = record.split(b",", 2)[1:2]
            if number and number[0].isdigit():
                here = int(number[0][:20])
                self.lost += max(here - self._next, 0) if self._next is not None else 0
                self._next = here + 1
            yield record
        # More than any log holds: it is written as fast as we read. The gap in the numbers will show what was lost.
        os.lseek(self._handle, 0, os.SEEK_END)

    def _unix(self, at: float, since: float) -> float:
        at += self._offset
        return at if self._exact else min(max(at, since), self._drained)

    def _anchor(self) -> None:
        now = time.monotonic()
        if now - self._measured < _ANCHOR:
            return
        behind = clock_behind()
        self._exact, self._measured = behind is not None, now
        self._offset = _unix_minus_monotonic() + (behind or 0.0)


# 6,348,3580784771,-;BTRFS info (device loop1): last unmount of filesystem bb5521f2-b6c5-4752-87ab-162d76362a20
# 14,353,4534860042,-;zs clock test \xff\x1b[31m \x5c tab\x09
# 6,339,5140900,-,caller=T1;NET: Registered PF_INET protocol family
#  SUBSYSTEM=pci
#  DEVICE=+pci:0000:00:05.0
def parse(record: str, line: int = 1) -> Line:
    """One record. More fields may come before the semicolon; lines after the first describe the device."""
    head, semicolon, text = record.partition("\n")[0].partition(";")
    try:
        priority, number, usec, *_ = head.split(",")
        if not semicolon:
            raise ValueError
        # The rest of the priority is the facility: 0 for the kernel itself, 1 and more for what programs wrote.
        return Line(count(priority) & 7, count(number), count(usec) / 1e6, _unescaped(text))
    except ValueError:
        raise Unparsable(SOURCE, line, record) from None


def parse_all(text: str) -> Iterator[Line]:
    """The records in a copy of the log: one after the other, with the lines that describe the device."""
    for number, line in enumerate(lines(text) or [""], 1):  # an empty log is an error: every kernel logs something
        if not line.startswith(" ") or number == 1:
            yield parse(line, number)


def _unescaped(text: str) -> str:
    r"""The kernel writes what is not printable ASCII, and the backslash, as \xNN."""
    if "\\x" not in text:
        return text
    raw = _ESCAPED.sub(lambda found: bytes.fromhex(found[1].decode()), text.encode("utf-8", "surrogateescape"))
    return raw.decode("utf-8", "surrogateescape")


def _unix_minus_monotonic() -> float:
    tries = [(time.monotonic(), time.time(), time.monotonic()) for _ in range(_TRIES)]
    before, unix, after = min(tries, key=lambda it: it[2] - it[0])
    return unix - (before + after) / 2


def clock_behind() -> float | None:
    """How many seconds printk's clock is behind CLOCK_MONOTONIC; None if it cannot be measured."""
    libc = ctypes.CDLL(None, use_errno=True)
    number = _PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        return None
    # A dummy software event on our own thread that records names (comm) with their time (sample_id_all).
    flags = 1 << 5 | 1 << 9 | 1 << 18  # exclude_kernel, comm, sample_id_all
    attributes = struct.pack("=IIQQQQQ16x", 1, 64, 9, 0, 1 << 2, 0, flags)
    handle = libc.syscall(number, ctypes.create_string_buffer(attributes, 64), 0, -1, -1, 8)
    if handle < 0:
        return None
    try:
        page = mmap.PAGESIZE
        with mmap.mmap(handle, 2 * page, mmap.MAP_SHARED, mmap.PROT_READ | mmap.PROT_WRITE) as ring:
            return _measured(libc, ring, page)
    except OSError:  # the limit of locked memory is used up
        return None
    finally:
        os.close(handle)


def _measured(libc: ctypes.CDLL, ring: mmap.mmap, page: int) -> float | None:
    name = ctypes.create_string_buffer(16)
    get_name, set_name, data_head = 16, 15, 1024
    libc.prctl(get_name, name, 0, 0, 0)
    tries: list[tuple[int, float]] = []
    for _ in range(_TRIES):
        before = time.monotonic_ns()
        libc.prctl(set_name, name, 0, 0, 0)
        after = time.monotonic_ns()
        (head,) = struct.unpack_from("=Q", ring, data_head)
        if not 16 <= head <= page:
            return None
        (local,) = struct.unpack_from("=Q", ring, page + head - 8)  # the time ends the record
        tries.append((after - before, (before + after) / 2 - local))
    return min(tries)[1] / 1e9
