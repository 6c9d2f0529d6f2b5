"""/sys/devices/system/cpu/possible: how many cores the kernel keeps per-CPU memory for.

Overhead: one read of a few bytes.
Kernel: Documentation/admin-guide/cputopology.rst. Possible cores, not present ones, set the cost of a dying cgroup: a
    small machine that can grow to 128 cores pays for 128.
"""

from __future__ import annotations

from zombiescope.core import Unparsable
from zombiescope.kernel.fetched import one_figure, reading
from zombiescope.kernel.text import cores

EVERY = 60.0
GIVES = ("cpus_possible",)
SOURCE = "/sys/devices/system/cpu/possible"
FILES = (SOURCE,)


# 0-95
# 0,2-3
def parse(text: str) -> int:
    """How many cores a list names; an empty list is an error."""
    found = cores(text, SOURCE)
    if not found:
        raise Unparsable(SOURCE, 1, text)
    return len(found)


readings = one_figure(GIVES[0], SOURCE, parse)
read = reading(FILES, readings)
