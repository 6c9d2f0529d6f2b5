"""/sys/devices/system/cpu/possible: how many cores the kernel keeps per-CPU memory for.

Overhead: one read of a few bytes.
Kernel: Documentation/admin-guide/cputopology.rst. Possible cores, not present ones, set the price of a dead cgroup: a
    small machine that could be grown to 128 cores pays for 128.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Host, Reading, Unparsable, count

EVERY = 60.0
GIVES = ("cpus_possible",)
MOST = 65_536  # more than any kernel can be built for
SOURCE = "/sys/devices/system/cpu/possible"


def read(host: Host) -> Iterator[Reading]:
    at = host.now()
    text = host.read(SOURCE)
    yield Reading(what=GIVES[0], subject="node", value=parse(text), at=at, source=SOURCE, text=text.strip())


# 0-95
# 0,2-3
def parse(text: str) -> int:
    """How many cores a list of ranges names."""
    cores = 0
    try:
        for part in text.strip().split(","):
            first, dash, last = part.partition("-")
            many = count(last if dash else first) - count(first) + 1
            if many < 1:
                raise ValueError
            cores += many
        if cores > MOST:
            raise ValueError
    except ValueError:
        raise Unparsable(SOURCE, 1, text) from None
    return cores
