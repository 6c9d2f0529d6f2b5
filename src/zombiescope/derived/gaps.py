"""Periods in which a core could not be sampled because interrupts were off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from zombiescope.core.timeline import Series, Timeline

GAP = "core_gap_seconds"
_FITS = 0.8  # of a gap


def core_gaps(timeline: Timeline, cpu: str) -> Series:
    """When each period without interrupts began on a core, and its length.

    A core that is idle, or that the hypervisor took away, gives no stacks either. So a gap counts only if the time
    that /proc/stat accounts for otherwise, from the sample before it to the one after it, leaves room for it.
    """
    found = timeline.series(GAP, cpu)
    looks = timeline.looks("cpu_idle_seconds_total")
    times = looks.at[looks.values > 0]
    if not len(found) or len(times) < 2:
        return found
    before = times[np.maximum(np.searchsorted(times, found.at, side="right") - 1, 0)]
    after = times[np.minimum(np.searchsorted(times, found.at + found.values), len(times) - 1)]
    elsewhere = np.zeros(len(found))
    for mode in ("idle", "iowait", "steal"):
        clock = timeline.series(f"cpu_{mode}_seconds_total", cpu)
        elsewhere += np.nan_to_num(clock.sampled(after) - clock.sampled(before))
    # Between two samples there may be several gaps, and times come in ticks of 10 ms: most of a gap must fit in.
    kept = np.flatnonzero((after - before) - elsewhere >= _FITS * found.values)
    return replace(
        found,
        at=found.at[kept],
        values=found.values[kept],
        sources=tuple(found.sources[it] for it in kept) if len(found.sources) > 1 else found.sources,
        texts={},
    )
