"""/proc/vmstat: counters of memory management: faults, reclaim by kswapd, direct reclaim, swap, OOM kills.

Overhead: one read of 4 KB, 60 µs; the kernel adds up per-CPU counters, so a little more on many cores.
Kernel: vmstat_text in mm/vmstat.c. Before 599d0c954f91 (in v4.8) reclaim was counted by zone (pgscan_direct_normal,
    …), and stalls still are (allocstall_normal, …): zones are added up.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind, Reading, Unparsable
from zombiescope.kernel.fetched import Samples, reading, texts
from zombiescope.kernel.text import counters

EVERY = 2.0
SOURCE = "/proc/vmstat"
FILES = (SOURCE,)
# Counters we keep; where the kernel splits one by zone, the sum.
_COUNTERS = (
    "pgfault",
    "pgmajfault",
    "pgpgin",
    "pgpgout",
    "pswpin",
    "pswpout",
    "pgscan_direct",
    "pgscan_kswapd",
    "pgsteal_direct",
    "pgsteal_kswapd",
    "allocstall",
    "compact_stall",
    "pageoutrun",
    "oom_kill",
    "drop_pagecache",
    "drop_slab",
    "numa_hint_faults",
    "numa_pages_migrated",
)
_ZONES = ("dma", "dma32", "normal", "high", "movable", "device")
_COUNTED = tuple(f"vmstat_{name}_total" for name in _COUNTERS)
_LINES = tuple((name, *(f"{name}_{zone}" for zone in _ZONES)) for name in _COUNTERS)
COMPRESSED = "memory_compressed_pages"  # of zram and zswap: no line of /proc/meminfo has those of zram
GIVES = (*_COUNTED, COMPRESSED)
CURVES = (("direct reclaim", "pages/s", "vmstat_pgscan_direct_total", "most"),)


def readings(samples: Samples) -> Iterator[Reading | Blind]:
    """Each sample's, without those that are as in the sample before: most of these counters stand still."""
    last: dict[str, int] = {}
    for at, text in texts(samples):
        found = parse(text)
        for what, name, keys in zip(_COUNTED, _COUNTERS, _LINES, strict=True):
            parts = [found[key] for key in keys if key in found]
            if not parts:
                yield Blind(what=what, source=SOURCE, why=f"this kernel does not count {name}")
            elif last.get(what) != (value := sum(parts)):
                last[what] = value
                yield Reading(what=what, subject="node", value=value, at=at, source=SOURCE)
        pages = found.get("nr_zspages", 0)  # none where the kernel is built without zsmalloc
        if last.get(COMPRESSED) != pages:
            last[COMPRESSED] = pages
            yield Reading(what=COMPRESSED, subject="node", value=pages, at=at, source=SOURCE)


read = reading(FILES, readings)


# pgfault 2320168809
# allocstall_normal 0
def parse(text: str) -> dict[str, int]:
    found = counters(text, SOURCE)
    if not found:
        raise Unparsable(SOURCE, 1, text)
    return found
