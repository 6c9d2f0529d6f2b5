"""/proc/slabinfo: the kernel's own memory by kind of object, the largest kinds only; number of network namespaces.

Overhead: one read of 30 KB and one pass once a minute, 1.4 ms. The kernel locks its list of caches while it counts
    at most 10,000 partial slabs of each (since v6.10; before, all of them: some ms for millions of objects).
Kernel: slabinfo_show() in mm/slab_common.c; root only. Caches of like objects may be merged under one name, unless
    booted with slab_nomerge. The number of objects in use is an estimate for slabs that a core is using.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from typing import NamedTuple

from zombiescope.core import Blind, Reading, Unparsable
from zombiescope.kernel.fetched import Samples, reading, texts
from zombiescope.kernel.text import count, lines

EVERY = 60.0
GIVES = ("slab_cache_bytes", "slab_cache_objects", "network_namespaces")
TOP = 10  # kinds reported: one that grows too large is the first or second
SOURCE = "/proc/slabinfo"
FILES = (SOURCE,)


class Cache(NamedTuple):
    """The objects of one kind."""

    name: str
    in_use: int
    objects: int
    object_bytes: int

    @property
    def bytes(self) -> int:
        return self.objects * self.object_bytes


def readings(samples: Samples) -> Iterator[Reading | Blind]:
    for at, text in texts(samples):
        caches = parse(text)
        for cache in heapq.nlargest(TOP, caches.values(), key=lambda it: it.bytes):
            for what, value in zip(GIVES, (cache.bytes, cache.objects), strict=False):
                yield Reading(what=what, subject=f"cache:{cache.name}", value=value, at=at, source=SOURCE)
        if "net_namespace" in caches:
            source = f"$ grep '^net_namespace ' {SOURCE}"
            yield Reading(what=GIVES[2], subject="node", value=caches["net_namespace"].in_use, at=at, source=source)
        else:
            yield Blind(what=GIVES[2], source=SOURCE, why="this kernel keeps network namespaces in a shared slab cache")


read = reading(FILES, readings)


# slabinfo - version: 2.1
# # name            <active_objs> <num_objs> <objsize> <objperslab> <pagesperslab> : tunables …
# dentry            161635 161763    192   21    1 : tunables    0    0    0 : slabdata   7703   7703      0
def parse(text: str) -> dict[str, Cache]:
    rows = lines(text)
    if not rows or not rows[0].startswith("slabinfo"):
        raise Unparsable(SOURCE, 1, rows[0] if rows else text)
    found = {}
    for number, row in enumerate(rows[2:], 3):
        try:
            # A module may give its cache any name, spaces included: figures are counted back from the first colon.
            name, *figures = row.partition(" : ")[0].rsplit(maxsplit=5)
            in_use, objects, size, _per_slab, _pages = map(count, figures)
        except ValueError:
            raise Unparsable(SOURCE, number, row) from None
        found[name] = Cache(name, in_use, objects, size)
    return found
