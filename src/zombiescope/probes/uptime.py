"""/proc/uptime: how long the node has been up, so that a count can be given as a rate.

Overhead: one read of 20 bytes.
Kernel: Documentation/filesystems/proc.rst. It counts time spent suspended.
"""

from __future__ import annotations

import math

from zombiescope.core import Unparsable
from zombiescope.kernel.fetched import one_figure, reading

EVERY = 60.0
GIVES = ("uptime_seconds",)
SOURCE = "/proc/uptime"
FILES = (SOURCE,)


# 350735.47 234388.90
def parse(text: str) -> float:
    try:
        up, _idle = text.split()
        seconds = float(up)
        if not math.isfinite(seconds):
            raise ValueError
        return seconds
    except ValueError:
        raise Unparsable(SOURCE, 1, text) from None


readings = one_figure(GIVES[0], SOURCE, parse)
read = reading(FILES, readings)
