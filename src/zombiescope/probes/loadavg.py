"""/proc/loadavg: running and waiting tasks, averaged over 1, 5 and 15 minutes.

Overhead: one read of 30 bytes.
Kernel: Documentation/filesystems/proc.rst. It counts uninterruptible sleep too: high load need not mean a busy machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterator

from zombiescope.core import Reading, Unparsable
from zombiescope.kernel.fetched import Samples, reading, texts

EVERY = 6.0
GIVES = ("load1", "load5", "load15")
SOURCE = "/proc/loadavg"
FILES = (SOURCE,)


def readings(samples: Samples) -> Iterator[Reading]:
    for at, text in texts(samples):
        for what, value in zip(GIVES, parse(text), strict=True):
            yield Reading(what=what, subject="node", value=value, at=at, source=SOURCE, text=text.strip())


read = reading(FILES, readings)


# 0.15 0.07 0.02 2/78 2028
def parse(text: str) -> tuple[float, float, float]:
    try:
        one, five, fifteen, _tasks, _last_pid = text.split()
        loads = float(one), float(five), float(fifteen)
        if not all(map(math.isfinite, loads)):
            raise ValueError
        return loads
    except ValueError:
        raise Unparsable(SOURCE, 1, text) from None
