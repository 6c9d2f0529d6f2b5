"""/sys/devices/system/cpu/possible: how many cores the kernel keeps per-CPU memory for.

Overhead: one read of a few bytes.
Kernel: Documentation/admin-guide/cputopology.rst. Possible cores, not present ones, set the cost of a dying cgroup: a
    small machine that can grow to 128 cores pays for 128.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Reading, Unparsable
from zombiescope.kernel.fetched import Samples, reading, texts
from zombiescope.kernel.text import cores

EVERY = 60.0
GIVES = ("cpus_possible",)
SOURCE = "/sys/devices/system/cpu/possible"
FILES = (SOURCE,)


def readings(samples: Samples) -> Iterator[Reading]:
    for at, text in texts(samples):
        yield Reading(what=GIVES[0], subject="node", value=parse(text), at=at, source=SOURCE, text=text.strip())


read = reading(FILES, readings)


# 0-95
# 0,2-3
def parse(text: str) -> int:
    """How many cores a list names; an empty list is an error."""
    found = cores(text, SOURCE)
    if not found:
        raise Unparsable(SOURCE, 1, text)
    return len(found)
