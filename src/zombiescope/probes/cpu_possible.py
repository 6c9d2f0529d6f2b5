"""/sys/devices/system/cpu/possible: how many cores the kernel keeps per-CPU memory for.

Overhead: one read of a few bytes.
Kernel: Documentation/admin-guide/cputopology.rst. Possible cores, not present ones, set the price of a dead cgroup: a
    small machine that could be grown to 128 cores pays for 128.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Host, Reading, Unparsable

EVERY = 60.0
GIVES = ("cpus_possible",)
SOURCE = "/sys/devices/system/cpu/possible"


def read(host: Host) -> Iterator[Reading]:
    at = host.now()
    text = host.read(SOURCE)
    yield Reading(what=GIVES[0], subject="node", value=len(parse(text)), at=at, source=SOURCE, text=text.strip())


# 0-95
# 0,2-3
def parse(text: str) -> list[int]:
    try:
        cores: list[int] = []
        for part in text.strip().split(","):
            first, _, last = part.partition("-")
            if int(last or first) > 65_535:  # more than any kernel can have (NR_CPUS); not worth a list
                raise ValueError
            cores.extend(range(int(first), int(last or first) + 1))
        return cores
    except ValueError:
        raise Unparsable(SOURCE, 1, text) from None
