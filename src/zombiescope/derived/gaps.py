"""Periods in which a core could not be sampled because interrupts were off."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from zombiescope.core.timeline import Floats, Series, Timeline

GAP = "core_gap_seconds"
_FITS = 0.8  # of a gap
_ASLEEP = 0.9  # of all cores in a gap at once: no lock is held on all of them, the node itself was stopped
_COUNTED = 4  # cores: on fewer, one thing may well keep all of them


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
    began, ended = timeline.once(_asleep)
    middle = found.at + found.values / 2
    place = np.searchsorted(began, middle, side="right") - 1
    elsewhere[(place >= 0) & (middle <= np.append(ended, -np.inf)[place])] = np.inf
    # Between two samples there may be several gaps, and times come in ticks of 10 ms: most of a gap must fit in.
    kept = np.flatnonzero((after - before) - elsewhere >= _FITS * found.values)
    return replace(
        found,
        at=found.at[kept],
        values=found.values[kept],
        sources=tuple(found.sources[it] for it in kept) if len(found.sources) > 1 else found.sources,
        texts={},
    )


def _asleep(timeline: Timeline) -> tuple[Floats, Floats]:
    """When nearly all cores had a gap at once: the node was suspended, or the hypervisor had stopped it. Start, end."""
    many = len(timeline.subjects("cpu_idle_seconds_total", "cpu"))
    gaps = [timeline.series(GAP, cpu) for cpu in timeline.subjects(GAP, "cpu")]
    least = max(_ASLEEP * many, _COUNTED)
    if len(gaps) < least:
        return np.empty(0), np.empty(0)
    at = np.concatenate([*(it.at for it in gaps), *(it.at + it.values for it in gaps)])
    order = np.argsort(at, kind="stable")
    step = np.repeat([1, -1], len(at) // 2)[order]
    stopped = np.cumsum(step) >= least
    edges = np.flatnonzero(np.diff(stopped, prepend=False, append=False))
    return at[order][edges[::2]], at[order][edges[1::2]]
