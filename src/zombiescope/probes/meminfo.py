"""/proc/meminfo: memory use, with what dying cgroups hold (per-CPU counters and slab), and what no line counts.

Overhead: one read, 30 µs.
Kernel: Documentation/filesystems/proc.rst. `Percpu` since 7e8a6304d541 ("add percpu populated pages count").
    A memory cgroup keeps about 2 KB of counters for each possible core and 12.5 KB of slab. Pages that a driver, a
    socket or a packet ring takes from the page allocator itself are in no line (fs/proc/meminfo.c): they are what is
    missing from MemTotal when all others are taken away. VmallocUsed is counted since 5.3, and holds the kernel's
    stacks as well, which makes what is missing a little too small.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind, Reading, Unparsable
from zombiescope.kernel.fetched import Samples, reading, texts
from zombiescope.kernel.text import count, lines

EVERY = 6.0
_FIELDS = {
    "MemTotal": "memory_total_bytes",
    "MemFree": "memory_free_bytes",
    "MemAvailable": "memory_available_bytes",
    "Slab": "memory_slab_bytes",
    "SReclaimable": "memory_slab_reclaimable_bytes",
    "SUnreclaim": "memory_slab_unreclaimable_bytes",
    "Percpu": "memory_percpu_bytes",
    "KernelStack": "memory_kernel_stack_bytes",
    "Shmem": "memory_shmem_bytes",
}
UNACCOUNTED = "memory_unaccounted_bytes"
GIVES = (*_FIELDS.values(), UNACCOUNTED)
# Lines that together are all memory in use. Shmem is part of Cached, huge pages of programs are part of AnonPages.
_NEEDED = ("MemFree", "Buffers", "Cached", "AnonPages", "Slab", "KernelStack", "PageTables", "VmallocUsed")
_IF_THERE = (
    *("SwapCached", "SecPageTables", "Percpu", "Hugetlb", "WritebackTmp", "Balloon", "Unaccepted", "GPUActive"),
    *("GPUReclaim",),
)
SOURCE = "/proc/meminfo"
FILES = (SOURCE,)


def readings(samples: Samples) -> Iterator[Reading | Blind]:
    for at, text in texts(samples):
        found = parse(text)
        for key, what in _FIELDS.items():
            if key in found:
                size, line = found[key]
                yield Reading(what=what, subject="node", value=size, at=at, source=SOURCE, text=line)
            else:
                yield Blind(what=what, source=SOURCE, why=f"this kernel has no line {key}")
        if missing := [key for key in _NEEDED if key not in found]:
            yield Blind(what=UNACCOUNTED, source=SOURCE, why=f"this kernel has no line {missing[0]}")
        else:
            counted = sum(found[key][0] for key in (*_NEEDED, *_IF_THERE) if key in found)
            left = max(found["MemTotal"][0] - counted - _huge(found), 0)
            yield Reading(what=UNACCOUNTED, subject="node", value=left, at=at, source=SOURCE)


read = reading(FILES, readings)


def _huge(found: dict[str, tuple[int, str]]) -> int:
    """What is set aside for huge pages, where there is no line Hugetlb, which counts all sizes, yet."""
    if "Hugetlb" in found:
        return 0
    return found.get("HugePages_Total", (0, ""))[0] * found.get("Hugepagesize", (0, ""))[0]


# MemTotal:       24682416 kB
# HugePages_Total:       0
def parse(text: str) -> dict[str, tuple[int, str]]:
    """Each field in bytes, with the kernel's own line."""
    found = {}
    for number, line in enumerate(lines(text), 1):
        key, _, rest = line.partition(":")
        value, _, unit = rest.strip().partition(" ")
        try:
            found[key] = (count(value) * (1024 if unit == "kB" else 1), line)
        except ValueError:
            raise Unparsable(SOURCE, number, line) from None
    if "MemTotal" not in found:
        raise Unparsable(SOURCE, 1, text)
    return found
