"""/proc/meminfo: memory use, with what dying cgroups hold: per-CPU counters and slab.

Overhead: one read, 30 µs.
Kernel: Documentation/filesystems/proc.rst. `Percpu` since 7e8a6304d541 ("add percpu populated pages count").
    A memory cgroup keeps about 2 KB of counters for each possible core and 12.5 KB of slab.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind, Reading, Unparsable
from zombiescope.kernel.fetched import Samples, reading, texts
from zombiescope.kernel.text import count, lines

EVERY = 5.0
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
GIVES = tuple(_FIELDS.values())
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


read = reading(FILES, readings)


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
