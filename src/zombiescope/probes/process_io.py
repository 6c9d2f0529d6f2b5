"""/proc/PID/io: who reads and writes most, asked only while tasks wait for I/O.

Overhead: one read of /proc/pressure/io, 10 µs; only where tasks waited for I/O since the last sample, one read for each
    process, 12 µs, at most `MOST` of them, the youngest first: a node of 500 processes takes 6 ms.
Kernel: Documentation/filesystems/proc.rst 3.3. What a process wrote is counted when it makes a page dirty, so it is the
    writer's and not that of the kernel's thread which brings it to the disk. Other users' files are read by root only,
    and need CONFIG_TASK_IO_ACCOUNTING.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass, field

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.kernel.text import count, lines
from zombiescope.probes._remembering import keeping

EVERY = 6.0
WRITTEN, READ, ASKED = "process_written_bytes_total", "process_read_bytes_total", "process_io_asked"
GIVES = (WRITTEN, READ, ASKED)
MOST = 1_000  # processes in a sample, 12 ms
TOLD = 5  # processes reported, by what they read and wrote since the last sample
PRESSED = 0.1  # of the time since the last sample that some task waited for I/O: with less nobody wants to know
_PRESSURE = "/proc/pressure/io"


@dataclass(slots=True)
class _Last:
    """The last sample: its time, the pressure then, and what each process had read and written if it was asked."""

    at: float = 0.0
    waited: float = 0.0
    done: dict[str, tuple[int, int]] = field(default_factory=dict)


def _told(host: Host, last: _Last) -> Iterator[Reading | Blind]:
    at, waited = host.now(), parse_pressure(host.read(_PRESSURE))
    pressed = not last.at or waited - last.waited >= PRESSED * (at - last.at)
    done = dict(_done(host)) if pressed else {}
    yield Reading(what=ASKED, subject="node", value=len(done), at=at, source="$ cat /proc/[0-9]*/io")
    both = [pid for pid in done if pid in last.done]
    rises = {pid: sum(done[pid]) - sum(last.done[pid]) for pid in both}
    for pid in heapq.nlargest(TOLD, (it for it in both if rises[it] > 0), key=lambda it: rises[it]):
        try:
            name = host.read(f"/proc/{pid}/comm", most=4096).rstrip("\n")
        except Unreadable:
            continue  # it has exited
        for when, numbers in ((last.at, last.done[pid]), (at, done[pid])):
            for what, value in zip((READ, WRITTEN), numbers, strict=True):
                yield Reading(
                    what=what, subject=f"process:{name}[{pid}]", value=value, at=when, source=f"/proc/{pid}/io"
                )
    last.at, last.waited, last.done = at, waited, done


watch, read = keeping(_Last, _told)


def _done(host: Host) -> Iterator[tuple[str, tuple[int, int]]]:
    pids = sorted(host.pids(), key=int, reverse=True)
    for pid in pids[:MOST]:
        try:
            yield pid, parse(host.read(f"/proc/{pid}/io", most=4096))
        except (Unreadable, Unparsable):
            continue  # it has exited, or we may not trace it


# some avg10=0.00 avg60=0.12 avg300=0.05 total=1234
def parse_pressure(text: str) -> float:
    """Seconds in which some task waited for I/O."""
    try:
        return count(lines(text)[0].rpartition("total=")[2]) / 1e6
    except (ValueError, IndexError):
        raise Unparsable(_PRESSURE, 1, text) from None


# read_bytes: 12288
# write_bytes: 8192
def parse(text: str) -> tuple[int, int]:
    """Bytes read from disks, and bytes to be written to them."""
    found = dict(line.partition(": ")[::2] for line in lines(text))
    try:
        return count(found["read_bytes"]), count(found["write_bytes"])
    except (KeyError, ValueError):
        raise Unparsable("/proc/PID/io", 1, text) from None
