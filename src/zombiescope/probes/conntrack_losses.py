"""/proc/net/stat/nf_conntrack: connections that could not be entered in the table, as when two packets race for one.

Overhead: one read of a row for each core, 30 µs on 2 cores, 1 µs for each more.
Kernel: net/netfilter/nf_conntrack_standalone.c; absent without the module or CONFIG_NF_CONNTRACK_PROCFS. A packet whose
    entry cannot be inserted is dropped; two DNS requests from one socket are the usual case.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Reading, Unparsable
from zombiescope.kernel.fetched import Samples, reading, texts
from zombiescope.kernel.text import count, lines

EVERY = 6.0
GIVES = ("conntrack_insert_failed_total",)
SOURCE = "/proc/net/stat/nf_conntrack"
FILES = (SOURCE,)


def readings(samples: Samples) -> Iterator[Reading]:
    for at, text in texts(samples):
        yield Reading(what=GIVES[0], subject="node", value=parse(text), at=at, source=SOURCE)


read = reading(FILES, readings)


# entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error …
# 00000023  00000000 00000000 00000000 00000007 …
def parse(text: str) -> int:
    """Summed over all cores; the numbers are hexadecimal."""
    head, *rows = (line.split() for line in lines(text) or [""])
    try:
        column = head.index("insert_failed")
        return sum(count(row[column], 16) for row in rows)
    except (ValueError, IndexError):
        raise Unparsable(SOURCE, 1, text) from None
