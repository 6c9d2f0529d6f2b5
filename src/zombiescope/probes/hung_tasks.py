"""/proc/sys/kernel/hung_task_detect_count: how many tasks the kernel found blocked for longer than its limit.

Overhead: one read of a few bytes, 20 µs.
Kernel: kernel/hung_task.c, Documentation/admin-guide/sysctl/kernel.rst. Counted by khungtaskd, which searches for
    tasks that did not run for hung_task_timeout_secs (120), threads included. Older kernels only log messages. The
    messages stop after hung_task_warnings of them, the count does not.
"""

from __future__ import annotations

from zombiescope.core import Unparsable
from zombiescope.kernel.fetched import one_figure, reading
from zombiescope.kernel.text import count

EVERY = 30.0  # seconds: khungtaskd itself checks every two minutes
GIVES = ("hung_tasks_total",)
SOURCE = "/proc/sys/kernel/hung_task_detect_count"
FILES = (SOURCE,)


# 3
def parse(text: str) -> int:
    try:
        return count(text.strip())
    except ValueError:
        raise Unparsable(SOURCE, 1, text) from None


readings = one_figure(GIVES[0], SOURCE, parse)
read = reading(FILES, readings)
