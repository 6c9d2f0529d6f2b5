"""/sys/devices/system/node/node*/cpulist: which cores belong to which NUMA node.

Overhead: one listing, and one read of a few bytes for each memory node: 0.05 ms with one.
Kernel: Documentation/ABI/stable/sysfs-devices-node; only with CONFIG_NUMA. An offline core is in no list.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from zombiescope.core import Host, Reading, Unreadable
from zombiescope.kernel.text import cores

EVERY = 60.0
GIVES = ("cpu_numa_node",)
FOLDER = "/sys/devices/system/node"


def read(host: Host) -> Iterator[Reading]:
    at = host.now()
    nodes = [name for name in host.listing(FOLDER) if re.fullmatch(r"node\d{1,9}", name)]
    if not nodes:
        raise Unreadable(FOLDER, "no NUMA node is listed")
    for node in nodes:
        source = f"{FOLDER}/{node}/cpulist"
        for cpu in cores(host.read(source), source):  # a node with memory only has none
            yield Reading(what=GIVES[0], subject=f"cpu:{cpu}", value=int(node[4:]), at=at, source=source)
