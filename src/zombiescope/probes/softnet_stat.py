"""/proc/net/softnet_stat: packets each core took in, dropped for a full backlog, and polls it cut short.

Overhead: one read, a line a core, 20 µs on 2 cores.
Kernel: softnet_seq_show() in net/core/net-procfs.c. Columns were only ever added: received_rps (in v2.6.35), flow
    limit (in v3.11), backlog length and the core's own number by 7d58e6555870 (in v5.10). Before that the line
    number is taken as the core, which is wrong if a core is offline; the kernel gives nothing better. The path is per
    network namespace, but the counts are of the whole node.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind, Reading, Unparsable
from zombiescope.core.witness import Witness
from zombiescope.kernel.fetched import Samples, reading, texts
from zombiescope.kernel.text import count, lines

EVERY = 2.0
WITNESS = Witness.KERNEL
_COLUMNS = {
    "softnet_processed_total": 0,
    "softnet_dropped_total": 1,
    "softnet_squeezed_total": 2,
    "softnet_collision_total": 8,
    "softnet_received_rps_total": 9,
    "softnet_flow_limit_total": 10,
    "softnet_backlog_packets": 11,
}
_CORE = 12
GIVES = tuple(_COLUMNS)
CURVES = (("NAPI out of budget", "per s", "softnet_squeezed_total", "all"),)
SOURCE = "/proc/net/softnet_stat"
FILES = (SOURCE,)


def readings(samples: Samples) -> Iterator[Reading | Blind]:
    for at, text in texts(samples):
        rows = parse(text)
        for what, column in _COLUMNS.items():
            seen = {cpu: row[column] for cpu, row in rows.items() if column < len(row)}
            if not seen:
                yield Blind(what=what, source=SOURCE, why=f"this kernel's lines have no column {column + 1}")
            for cpu, value in seen.items():
                yield Reading(what=what, subject=f"cpu:{cpu}", value=value, at=at, source=SOURCE)


read = reading(FILES, readings)


# 000dfb82 00000029 0000000a 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000
# 00049279 00000000 00000001 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000000 00000003
def parse(text: str) -> dict[int, list[int]]:
    """The columns of each core."""
    rows = {}
    for number, line in enumerate(lines(text)):
        try:
            row = [count(column, 16) for column in line.split()]
        except ValueError:
            raise Unparsable(SOURCE, number + 1, line) from None
        if len(row) < 9:
            raise Unparsable(SOURCE, number + 1, line)
        rows[row[_CORE] if len(row) > _CORE else number] = row
    if not rows:
        raise Unparsable(SOURCE, 1, text)
    return rows
