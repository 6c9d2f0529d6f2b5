"""nf_conntrack: how many connections the kernel tracks, the limit, and packets dropped at the limit.

Overhead: two reads of a number and one of a row for each core: 90 µs on 2 cores, 1 µs for each more.
Kernel: net/netfilter/nf_conntrack_standalone.c. The files show the reader's own network namespace, on the host the
    host's; the limit is the same for all. Absent if the module is not loaded; then nothing is tracked.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind, Reading, Unparsable, Unreadable
from zombiescope.kernel.fetched import Samples, reading, text_of, unpacked
from zombiescope.kernel.text import count, lines, only_count

EVERY = 6.0
GIVES = ("conntrack_entries", "conntrack_limit", "conntrack_drops_total")
_FOLDER = "/proc/sys/net/netfilter"
SOURCES = (f"{_FOLDER}/nf_conntrack_count", f"{_FOLDER}/nf_conntrack_max")
DROPS = "/proc/net/stat/nf_conntrack"
FILES = (*SOURCES, DROPS)


def readings(samples: Samples) -> Iterator[Reading | Blind]:
    for at, content in samples:
        yield from _sample(at, *unpacked(content, FILES))


read = reading(FILES, readings)


def _sample(at: float, *parts: bytes | Unreadable) -> Iterator[Reading | Blind]:
    for what, source, part in zip(GIVES, SOURCES, parts, strict=False):
        yield Reading(what=what, subject="node", value=only_count(text_of(part), source), at=at, source=source)
    try:
        drops = parse_drops(text_of(parts[2]))
    except (Unreadable, Unparsable) as error:  # not built in everywhere (CONFIG_NF_CONNTRACK_PROCFS)
        yield Blind(what=GIVES[2], source=error.source, why=error.why)
        return
    yield Reading(what=GIVES[2], subject="node", value=drops, at=at, source=DROPS)


# entries  clashres found new invalid ignore delete chainlength insert insert_failed drop early_drop icmp_error …
# 00000023  00000000 00000000 00000000 00000007 …
def parse_drops(text: str) -> int:
    """Packets dropped, summed over all cores: the column "drop", in hexadecimal."""
    head, *rows = lines(text) or [""]
    try:
        column = head.split().index("drop")
    except ValueError:
        raise Unparsable(DROPS, 1, head) from None
    total = 0
    for number, row in enumerate(rows, 2):
        try:
            total += count(row.split()[column], 16)
        except (ValueError, IndexError):
            raise Unparsable(DROPS, number, row) from None
    return total
