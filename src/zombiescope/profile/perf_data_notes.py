"""Notes about what a perf.data file lacks, what was lost, and what could not be read."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from zombiescope.core.words import harmless
from zombiescope.naming.kallsyms_text import KallsymsText
from zombiescope.profile.events import left_out
from zombiescope.profile.perf_data_chains import Stacks
from zombiescope.profile.perf_data_reading import Reading

_MOST_CUT = 3  # files that are named


def of_file(reading: Reading, kernel: KallsymsText | None, event: str) -> Iterator[str]:
    """Of the whole file."""
    samples = reading.samples
    if kernel is None:
        release = f" ({harmless(reading.header.kernel)})" if reading.header.kernel else ""
        yield (
            f"no kernel symbols of that boot{release}: kernel functions are shown as addresses, idle cores count as "
            "busy; give a copy of its /proc/kallsyms with --kallsyms, or save it beside the file, as FILE.kallsyms"
        )
    elif kernel.zeroed:
        yield "kernel symbols are hidden from this user: run as root, or set sysctl kernel.kptr_restrict=0"
    if others := left_out(event, samples.counts):
        yield others
    for count, what in (
        (reading.lost, "samples were lost by the kernel: the rings were full"),
        (samples.broken, "samples are cut short, and are left out"),
        (reading.throttled, "times the kernel throttled sampling, as it took too long"),
    ):
        if count:
            yield f"{count:,} {what}"


def of_stacks(reading: Reading, stacks: Stacks, stack: npt.NDArray[np.int32]) -> Iterator[str]:
    """Of the samples whose stacks are shown."""
    if reading.samples.stacks and reading.unwinder is None:
        yield f"{reading.samples.stacks:,} user stacks (--call-graph dwarf) are not unwound: only the leaf is shown"
    if reading.unwinder is not None:
        for path, count in reading.unwinder.cut.most_common(_MOST_CUT):
            yield f"{count:,} user stacks are cut: {harmless(path)} is not here, or is another build"
        if reading.unwinder.foreign:
            yield f"{reading.unwinder.foreign:,} user stacks are not unwound: they are not of 64-bit x86 processes"
    if spoilt := int(stacks.spoilt()[stacks.chain][stack].sum()):
        yield f"{spoilt:,} stacks hold invalid addresses; the rest of each stack is kept"
