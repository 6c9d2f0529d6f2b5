"""/proc/softirqs: how often each kind of softirq ran on each core.

Overhead: one read, 30 µs on 2 cores; a row for each kind and a column for each possible core.
Kernel: show_softirqs() in fs/proc/softirqs.c. The header names possible cores, offline ones included.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind, Reading, Unparsable
from zombiescope.kernel.fetched import Samples, reading, texts
from zombiescope.kernel.text import core_columns, counts, lines

EVERY = 2.0
KINDS = ("HI", "TIMER", "NET_TX", "NET_RX", "BLOCK", "IRQ_POLL", "TASKLET", "SCHED", "HRTIMER", "RCU")
GIVES = tuple(f"softirqs_{kind.lower()}_total" for kind in KINDS)
SOURCE = "/proc/softirqs"
FILES = (SOURCE,)


def readings(samples: Samples) -> Iterator[Reading | Blind]:
    """Each sample's, without those that are as in the sample before: many kinds run seldom."""
    last: dict[str, dict[int, int]] = {}
    for at, text in texts(samples):
        before, last = last, parse(text)
        for what, kind in zip(GIVES, KINDS, strict=True):
            if kind not in last:
                yield Blind(what=what, source=SOURCE, why=f"this kernel has no softirq {kind}")
            known = before.get(kind, {})
            for cpu, times in last.get(kind, {}).items():
                if known.get(cpu) == times:
                    continue
                yield Reading(what=what, subject=f"cpu:{cpu}", value=times, at=at, source=SOURCE)


read = reading(FILES, readings)


#                     CPU0       CPU1
#       NET_RX:      43066     104508
def parse(text: str) -> dict[str, dict[int, int]]:
    """Counts by kind and core."""
    head, *rows = lines(text) or [""]
    found = {}
    cores = core_columns(head, SOURCE)
    for number, row in enumerate(rows, 2):
        kind, _, times = row.partition(":")
        try:
            # BLOCK_IOPOLL was renamed IRQ_POLL by 511cbce2ff8b (in v4.5).
            name = kind.strip().replace("BLOCK_IOPOLL", "IRQ_POLL")
            found[name] = dict(zip(cores, counts(times.split()), strict=True))
        except ValueError:
            raise Unparsable(SOURCE, number, row) from None
    return found
