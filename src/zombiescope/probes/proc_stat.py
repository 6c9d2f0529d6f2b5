"""/proc/stat: CPU time of each core by mode, and how many tasks run, are blocked and are created.

Overhead: one read and one pass, 60 µs on 2 cores and about 1 ms on 96. Four samples a second, two while all cores
    together spend less in the kernel than a full core would, reported once a second;
    `--set proc_stat.EVERY=0.05` sees bursts of a tenth of a second, for 0.1 % of a core more.
Kernel: Documentation/filesystems/proc.rst, 1.7. Times are in ticks of 1/100 s on every architecture (USER_HZ), so a
    sample each 0.25 s is exact to 4 %. Guest time, which follows, is already part of user time and not read; `irq` and
    `softirq` came with 2.6.0, `steal` with 2.6.11. An offline core has no row.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, NamedTuple

from zombiescope.core import Blind, Reading, Unparsable
from zombiescope.core.witness import Witness
from zombiescope.kernel.fetched import Samples, reading, texts
from zombiescope.kernel.text import count, counts, lines

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from zombiescope.kernel.columns import Column

EVERY = 0.25  # a core that is stuck for a second shows in three samples at least; ticks of 10 ms say no more about less
WITNESS = Witness.KERNEL
MODES = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal")
_COUNTS = {
    "ctxt": "context_switches_total",
    "processes": "forks_total",
    "procs_running": "procs_running",
    "procs_blocked": "procs_blocked",
}
GIVES = (*(f"cpu_{mode}_seconds_total" for mode in MODES), *_COUNTS.values())
SOURCE = "/proc/stat"
FILES = (SOURCE,)
_USER_HZ = 100


def in_kernel(content: bytes) -> float:
    """CPU seconds that all cores together spent in the kernel; NaN if they are not shown. Reads the first row alone."""
    try:
        _, _, system, _, _, irq, softirq = content[: content.index(b"\n")].split(None, 8)[1:8]
        return (int(system) + int(irq) + int(softirq)) / _USER_HZ
    except ValueError:
        return math.nan


class Stat(NamedTuple):
    cores: dict[int, tuple[float, ...]]  # seconds by mode, in the order of MODES
    counts: dict[str, int]


def readings(samples: Samples) -> Iterator[Reading | Blind]:
    """What changed between two samples, since a value holds until the next is reported."""
    last: dict[str, tuple[float, ...]] = {}
    for at, text in texts(samples):
        stat = parse(text)
        now: dict[str, Mapping[str, float]] = {"node": stat.counts}
        now |= {f"cpu:{cpu}": dict(zip(GIVES, seconds, strict=False)) for cpu, seconds in stat.cores.items()}
        for subject, figures in now.items():
            values = tuple(figures.values())
            before = last.get(subject, ())
            if values != before:
                for place, (what, value) in enumerate(figures.items()):
                    if len(before) != len(values) or before[place] != value:
                        yield Reading(what=what, subject=subject, value=value, at=at, source=SOURCE)
                last[subject] = values
    yield from _not_given({*GIVES[: max(map(len, stat.cores.values()))], *stat.counts})


def _not_given(given: set[str]) -> list[Blind]:
    return [Blind(what=what, source=SOURCE, why="this kernel does not show it") for what in GIVES if what not in given]


def columns(samples: Samples) -> list[Column | Blind] | None:
    """What `readings` says, by column: 96 cores are 3,000 readings a second. None if the samples are not all alike."""
    import numpy as np  # not in the process that fetches

    from zombiescope.kernel.columns import Column
    from zombiescope.kernel.stat_columns import core_ticks

    found = core_ticks([text for _, text in samples])
    if found is None:
        return None
    cores, ticks, rests = found
    try:
        totals = [_totals(it) for it in rests]
    except ValueError:
        return None
    if any(it.keys() != totals[0].keys() for it in totals):
        return None
    at = np.array([it for it, _ in samples])
    seconds = ticks[:, :, : len(MODES)] / _USER_HZ
    series: list[tuple[str, str, npt.NDArray[np.float64]]] = [
        (GIVES[mode], f"cpu:{core}", seconds[:, place, mode])
        for place, core in enumerate(cores)
        for mode in range(seconds.shape[2])
    ]
    series += [(what, "node", np.array([float(it[what]) for it in totals])) for what in totals[0]]
    said: list[Column | Blind] = []
    for what, subject, values in series:
        new = np.append(True, values[1:] != values[:-1])
        said.append(Column(what, subject, SOURCE, at[new], values[new]))
    return [*said, *_not_given({what for what, _, _ in series})]


def _totals(text: bytes) -> dict[str, int]:
    rows = [line.partition(" ") for line in lines(text.decode("utf-8", "surrogateescape"))]
    if any(key.startswith("cpu") for key, _, _ in rows):
        raise ValueError
    return {_COUNTS[key]: count(rest) for key, _, rest in rows if key in _COUNTS}


read = reading(FILES, readings)


# cpu  301854 612 111922 8979004 3552 2 3944 0 44 36
# cpu0 44490 19 21045 1087069 220 1 3410 0 2 1
# intr 8885917 17 0 0 …
# procs_running 2
def parse(text: str) -> Stat:
    cores: dict[int, tuple[float, ...]] = {}
    totals: dict[str, int] = {}
    for number, line in enumerate(lines(text), 1):
        key, _, rest = line.partition(" ")
        try:
            if key.startswith("cpu") and key != "cpu":
                seconds = tuple(ticks / _USER_HZ for ticks in counts(rest.split()[: len(MODES)]))
                if len(seconds) < 4:
                    raise ValueError
                cores[count(key[3:])] = seconds
            elif key in _COUNTS:
                totals[_COUNTS[key]] = count(rest)
        except ValueError:
            raise Unparsable(SOURCE, number, line) from None
    if not cores:
        raise Unparsable(SOURCE, 1, text)
    return Stat(cores, totals)
