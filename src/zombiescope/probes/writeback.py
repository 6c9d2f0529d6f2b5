"""/proc/vmstat: pages that wait to be written to disk, that are being written, and how many may wait.

Overhead: one read of 4 KB, 60 µs, every six seconds.
Kernel: mm/page-writeback.c. Above nr_dirty_threshold writers have to wait (balance_dirty_pages); from
    nr_dirty_background_threshold on the kernel writes by itself. nr_writeback is counted by node since v4.8.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Reading, Unparsable
from zombiescope.kernel.fetched import Samples, reading, texts
from zombiescope.kernel.text import counters

EVERY = 6.0
_NAMES = {"nr_dirty": "dirty_pages", "nr_writeback": "writeback_pages", "nr_dirty_threshold": "dirty_pages_limit"}
GIVES = tuple(_NAMES.values())
SOURCE = "/proc/vmstat"
FILES = (SOURCE,)


def readings(samples: Samples) -> Iterator[Reading]:
    for at, text in texts(samples):
        for what, value in parse(text).items():
            yield Reading(what=what, subject="node", value=value, at=at, source=SOURCE)


read = reading(FILES, readings)


# nr_dirty 63
# nr_dirty_threshold 1215493
def parse(text: str) -> dict[str, int]:
    found = counters(text, SOURCE)
    if "nr_dirty" not in found:
        raise Unparsable(SOURCE, 1, "no nr_dirty")
    return {what: found[name] for name, what in _NAMES.items() if name in found}
