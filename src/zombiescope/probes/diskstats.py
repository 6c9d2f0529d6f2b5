"""/proc/diskstats: requests that each disk completed, how long they took, and how many wait.

Overhead: one read of a line for each disk and partition, 60 µs for 20; a node with hundreds of volumes 1 ms.
Kernel: Documentation/admin-guide/iostats.rst. Times are in milliseconds and are added when a request completes, the
    queue's time also while it waits. Partitions and disks that were never used are left out. A device-mapper volume,
    a RAID and a loop device count what their disks count again. What a cgroup's own limit holds back has not reached
    the disk yet.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from zombiescope.core import Reading, Unparsable
from zombiescope.kernel.fetched import Samples, reading, texts
from zombiescope.kernel.text import counts, lines

EVERY = 2.0
GIVES = (
    "disk_requests_total",
    "disk_bytes_total",
    "disk_wait_seconds_total",
    "disk_queue_seconds_total",
    "disk_in_flight",
    "disks",
)
SOURCE = "/proc/diskstats"
FILES = (SOURCE,)
CURVES = (("disk queue", "requests", "disk_queue_seconds_total", "most"),)
MOST = 200  # disks, the busiest first: a node with more volumes than that has most of them idle
_SECTOR = 512
# Whole disks; sda1 and nvme0n1p1 are parts of them.
_DISK = re.compile(r"(?:sd|vd|xvd|hd)[a-z]{1,3}|nvme\d+n\d+|(?:dm-|md|loop|mmcblk|zram|nbd|rbd|drbd)\d+|dasd[a-z]+")


def readings(samples: Samples) -> Iterator[Reading]:
    for at, text in texts(samples):
        found = parse(text)
        yield Reading(what=GIVES[-1], subject="node", value=len(found), at=at, source=SOURCE)
        for disk in sorted(found, key=lambda it: -found[it][0])[:MOST]:
            for what, value in zip(GIVES, found[disk], strict=False):
                yield Reading(what=what, subject=f"disk:{disk}", value=value, at=at, source=SOURCE)


read = reading(FILES, readings)


#  254       0 vda 26405 6110 2166938 9083 1089431 1303424 43123784 2211302 0 414600 2240563 0 0 0 0 90210 20177
def parse(text: str) -> dict[str, tuple[float, ...]]:
    """By disk: requests, bytes, seconds that they took, seconds of the queue, requests in flight."""
    found: dict[str, tuple[float, ...]] = {}
    if not text.strip():
        raise Unparsable(SOURCE, 1, text)
    for number, line in enumerate(lines(text), 1):
        fields = line.split()
        try:
            if len(fields) < 14:
                raise ValueError
            reads, _, read_sectors, read_ms, writes, _, written, write_ms, flying, _, queue_ms = counts(fields[3:14])
        except ValueError:
            raise Unparsable(SOURCE, number, line) from None
        if _DISK.fullmatch(fields[2]) and (reads or writes or flying):
            sectors = (read_sectors + written) * _SECTOR
            found[fields[2]] = reads + writes, sectors, (read_ms + write_ms) / 1e3, queue_ms / 1e3, flying
    return found
