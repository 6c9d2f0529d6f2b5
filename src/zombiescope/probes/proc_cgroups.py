"""/proc/cgroups: how many cgroups the kernel holds for each controller, dying ones included.

Overhead: one read of about 300 bytes, 20 µs, whatever the number of cgroups: the kernel keeps a counter.
Kernel: proc_cgroupstats_show() in kernel/cgroup/cgroup-v1.c. The count is of the hierarchy that the controller is
    bound to (hierarchy 0 is v2, or none). Since af000ce85293 (in v6.12) a controller built without its v1 side has no
    row: on such a kernel memory is missing here and `cgroup_stat` has the count.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from zombiescope.core import Reading, Unparsable
from zombiescope.core.witness import Witness
from zombiescope.kernel.fetched import Samples, reading, texts
from zombiescope.kernel.text import count, lines

EVERY = 6.0
WITNESS = Witness.KERNEL
GIVES = ("cgroups_known", "cgroup_hierarchy", "cgroup_controller_enabled")
SOURCE = "/proc/cgroups"
FILES = (SOURCE,)


class Row(NamedTuple):
    """One controller."""

    controller: str
    hierarchy: int
    cgroups: int
    enabled: int
    line: str


def readings(samples: Samples) -> Iterator[Reading]:
    for at, text in texts(samples):
        for row in parse(text):
            subject = f"controller:{row.controller}"
            for what, value in zip(GIVES, (row.cgroups, row.hierarchy, row.enabled), strict=True):
                yield Reading(what=what, subject=subject, value=value, at=at, source=SOURCE, text=row.line)


read = reading(FILES, readings)


# #subsys_name	hierarchy	num_cgroups	enabled
# memory	4	68680	1
def parse(text: str) -> list[Row]:
    rows = []
    for number, line in enumerate(lines(text), 1):
        if line.startswith("#"):
            continue
        try:
            controller, hierarchy, cgroups, enabled = line.split("\t")
            rows.append(Row(controller, count(hierarchy), count(cgroups), count(enabled), line))
        except ValueError:
            raise Unparsable(SOURCE, number, line) from None
    if not rows:
        raise Unparsable(SOURCE, 1, text)
    return rows
