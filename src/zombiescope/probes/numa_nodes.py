"""/sys/devices/system/node/node*/cpulist: which cores are near to each other.

Overhead: one listing, and one read of a few bytes for each memory node: 0.05 ms with one.
Kernel: Documentation/ABI/stable/sysfs-devices-node; only with CONFIG_NUMA. A core that is off line is in no list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from zombiescope.core import Host, Reading, Unparsable, Unreadable, count

EVERY = 60.0
GIVES = ("cpu_numa_node",)
MOST = 65_536  # cores: more than any kernel can be built for
FOLDER = "/sys/devices/system/node"


def read(host: Host) -> Iterator[Reading]:
    at = host.now()
    nodes = [name for name in host.listing(FOLDER) if re.fullmatch(r"node\d{1,9}", name)]
    if not nodes:
        raise Unreadable(FOLDER, "no memory node is told")
    for node in nodes:
        source = f"{FOLDER}/{node}/cpulist"
        for cpu in parse(host.read(source), source):
            yield Reading(what=GIVES[0], subject=f"cpu:{cpu}", value=int(node[4:]), at=at, source=source)


# 0-47,96-143
def parse(text: str, source: str = "cpulist") -> list[int]:
    """A node of memory alone has an empty list."""
    cores: list[int] = []
    try:
        for part in text.strip().split(",") if text.strip() else ():
            first, dash, last = part.partition("-")
            start, end = count(first), count(last if dash else first)
            if end < start or end >= MOST:
                raise ValueError
            cores += range(start, end + 1)
    except ValueError:
        raise Unparsable(source, 1, text) from None
    return cores
