"""/proc/sys/kernel/hung_task_detect_count: how many tasks the kernel found blocked for longer than its limit.

Overhead: one read of a few bytes, 20 µs.
Kernel: kernel/hung_task.c, Documentation/admin-guide/sysctl/kernel.rst. Counted by khungtaskd, which searches for
    tasks that did not run for hung_task_timeout_secs (120), threads included. Older kernels only log messages. The
    messages stop after hung_task_warnings of them, the count does not.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Reading, Unparsable
from zombiescope.kernel.fetched import Samples, reading, texts
from zombiescope.kernel.text import count

EVERY = 30.0  # seconds: khungtaskd itself checks every two minutes
GIVES = ("hung_tasks_total",)
SOURCE = "/proc/sys/kernel/hung_task_detect_count"
FILES = (SOURCE,)


def readings(samples: Samples) -> Iterator[Reading]:
    for at, text in texts(samples):
        yield Reading(what=GIVES[0], subject="node", value=parse(text), at=at, source=SOURCE)


read = reading(FILES, readings)


# 3
def parse(text: str) -> int:
    try:
        return count(text.strip())
    except ValueError:
        raise Unparsable(SOURCE, 1, text) from None
