"""Samples by process: what each is called, and what it was sampled in."""

from __future__ import annotations

import numpy as np

from zombiescope.core.samples import Samples


def process_names(samples: Samples) -> dict[int, str]:
    """What each process is called, by pid: as its first thread, if that was seen, else as most of its samples."""
    pids = np.array([who.pid for who in samples.whos], np.int64)
    first = np.bincount(samples.who[samples.tid == pids[samples.who]], minlength=len(pids)).tolist()
    every = np.bincount(samples.who, minlength=len(pids)).tolist()
    counts: dict[int, dict[str, tuple[int, int]]] = {}
    for place, who in enumerate(samples.whos):
        if every[place]:
            own = counts.setdefault(who.pid, {})
            before = own.get(who.comm, (0, 0))
            own[who.comm] = (before[0] + first[place], before[1] + every[place])
    return {pid: max(sorted(own), key=lambda comm: own[comm]) for pid, own in counts.items()}


def processes(samples: Samples) -> list[tuple[str, int, Samples]]:
    """By process, the one with most time first: its name, its pid, its samples."""
    names = process_names(samples)
    pids, which = np.unique(samples.pid, return_inverse=True)
    ends = np.cumsum(np.bincount(which, minlength=len(pids)))
    rows = np.split(np.argsort(which, kind="stable"), ends[:-1])
    found = [(names[pid], pid, samples.only(own)) for pid, own in zip(pids.tolist(), rows, strict=False)]
    return sorted(found, key=lambda one: -one[2].seconds)
