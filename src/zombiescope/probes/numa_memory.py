"""Memory of each NUMA node: how much it has, how much is free, and pages that had to be taken from another node.

Overhead: two reads for each node, 40 µs each, and two settings; a node of two sockets 0.2 ms. At most `MOST` nodes.
Kernel: drivers/base/node.c, Documentation/admin-guide/numastat.rst. numa_miss counts pages that were wanted elsewhere
    and taken here, numa_foreign those wanted here and taken elsewhere. Nodes without cores (CXL memory) are left out.
    A kernel without NUMA does not have the folder: all memory is one node.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from zombiescope.core import Blind, Host, Reading, Unparsable, Unreadable
from zombiescope.kernel.text import count, counters, lines

EVERY = 6.0
TOTAL, FREE, FOREIGN = "numa_memory_bytes", "numa_memory_free_bytes", "numa_foreign_total"
RECLAIM_MODE, BALANCING = "zone_reclaim_mode", "numa_balancing"
GIVES = (TOTAL, FREE, FOREIGN, RECLAIM_MODE, BALANCING)
MOST = 64  # nodes: the largest machines have fewer
_FOLDER, _CORES = "/sys/devices/system/node", "/sys/devices/system/cpu"
_SETTINGS = {RECLAIM_MODE: "/proc/sys/vm/zone_reclaim_mode", BALANCING: "/proc/sys/kernel/numa_balancing"}


def read(host: Host) -> Iterator[Reading | Blind]:
    at = host.now()
    try:
        listed = host.listing(_FOLDER)
    except Unreadable:
        if "possible" not in host.listing(_CORES):  # then sysfs itself is not there
            raise
        yield from _only_one(host, at)
        return
    nodes = [it for it in listed if re.fullmatch(r"node\d{1,4}", it)]
    if not nodes:
        raise Unreadable(_FOLDER, "no NUMA node is listed")
    told = 0
    for name in nodes[:MOST]:
        folder = f"{_FOLDER}/{name}"
        try:
            if not host.read(f"{folder}/cpulist").strip():
                continue  # memory without cores
            total, free = parse_meminfo(host.read(f"{folder}/meminfo"), f"{folder}/meminfo")
            stat = f"{folder}/numastat"
            foreign = counters(host.read(stat), stat).get("numa_foreign", 0)
        except Unreadable:
            continue
        told += 1
        figures = ((TOTAL, total, "meminfo"), (FREE, free, "meminfo"), (FOREIGN, foreign, "numastat"))
        for what, value, file in figures:
            subject = f"numa:{name.removeprefix('node')}"
            yield Reading(what=what, subject=subject, value=value, at=at, source=f"{folder}/{file}")
    if not told:
        raise Unreadable(f"{_FOLDER}/node0/meminfo", "no such file or directory")
    for what, source in _SETTINGS.items():
        try:
            yield Reading(what=what, subject="node", value=count(host.read(source).strip()), at=at, source=source)
        except Unreadable as error:
            yield Blind(what=what, source=source, why=error.why)
        except ValueError:
            raise Unparsable(source, 1, "not a number") from None


def _only_one(host: Host, at: float) -> Iterator[Reading | Blind]:
    """A kernel without NUMA has one node: all memory."""
    source = "/proc/meminfo"
    text = "\n".join(f"Node 0 {line}" for line in lines(host.read(source)))
    for what, value in zip((TOTAL, FREE), parse_meminfo(text, source), strict=True):
        yield Reading(what=what, subject="numa:0", value=value, at=at, source=source)
    for what in (FOREIGN, *_SETTINGS):
        yield Blind(what=what, source=_FOLDER, why="this kernel is built without NUMA")


# Node 0 MemTotal:       24682416 kB
# Node 0 MemFree:        20180872 kB
def parse_meminfo(text: str, source: str) -> tuple[int, int]:
    found = {}
    for number, line in enumerate(lines(text), 1):
        words = line.split()
        if len(words) >= 4 and words[2] in ("MemTotal:", "MemFree:"):
            try:
                found[words[2]] = count(words[3]) * 1024
            except ValueError:
                raise Unparsable(source, number, line) from None
    try:
        return found["MemTotal:"], found["MemFree:"]
    except KeyError:
        raise Unparsable(source, 1, text) from None
