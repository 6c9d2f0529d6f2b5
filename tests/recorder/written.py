"""Recordings on disk, as a recorder would have written them, from a few arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from tests.recorder.journal import SEGMENT_SECONDS, Journal

from zombiescope.core import Reading
from zombiescope.recorder.replay import Recording, opened
from zombiescope.recorder.stack_series import EVENTS, GIVES, NAME

T0 = 1_794_000_000.0
LOG = "kernel_log"


@dataclass
class Sampled:
    """One row a sample; `stack` and `who` are places in what the recording is written with."""

    at: Any = field(default_factory=lambda: np.empty(0))  # seconds after T0, sorted
    cpu: Any = field(default_factory=lambda: np.empty(0, np.int64))
    who: Any = field(default_factory=lambda: np.empty(0, np.int64))
    stack: Any = field(default_factory=lambda: np.empty(0, np.int64))


def written(
    folder: Path,
    samples: Sampled,
    *,
    whos: Sequence[tuple[int, str, int]] = (),  # process, name, id of its cgroup
    stacks: Sequence[str] = (),  # as a flame graph has them, with a bar where the kernel begins: "main;read|vfs_read"
    readings: Iterable[Reading] = (),
    gives: dict[str, list[str]] | None = None,
    looks: Sequence[float] = (),
    hz: int = 100,
) -> Recording:
    """Every probe of `gives` looks at each of `looks`; readings are written in the order of their times."""
    meta = {"node": "n", "kernel": "6.18", "hz": hz, "gives": {**(gives or {}), NAME: list(GIVES)}}
    disk = Journal(str(folder), meta, events=(*EVENTS, LOG))
    names = [it.split("|") for it in stacks]
    frames = [tuple(frame for part in it for frame in part.split(";") if frame) for it in names]
    kernel = [len([frame for frame in it[1].split(";") if frame]) if len(it) > 1 else 0 for it in names]
    said = sorted(readings, key=lambda it: it.at)
    last = max([*samples.at[-1:].tolist(), *looks, *(it.at - T0 for it in said[-1:])])
    place = look = 0
    for end in np.arange(SEGMENT_SECONDS, last + SEGMENT_SECONDS + 1, SEGMENT_SECONDS).tolist():
        while place < len(said) and said[place].at < T0 + end:
            disk.add(said[place])
            place += 1
        while look < len(looks) and looks[look] < end:
            for probe, whats in meta["gives"].items():  # type: ignore[attr-defined]
                disk.look(probe, whats, T0 + looks[look])
            look += 1
        rows = slice(*np.searchsorted(samples.at, [end - SEGMENT_SECONDS, end]))
        here = np.unique(samples.stack[rows]).tolist()
        if here:
            columns = {"frames": [frames[it] for it in here], "kernel_frames": [kernel[it] for it in here]}
            disk.chunk("stacks", {"stack": [it + 1000 for it in here], **columns})
            disk.chunk("samples", _columns(samples, rows, whos))
        disk.flush(T0 + end - SEGMENT_SECONDS)
        disk.rotate()
    disk.close()
    return opened(str(folder))


def _columns(samples: Sampled, rows: slice, whos: Sequence[tuple[int, str, int]]) -> dict[str, Any]:
    pid, _, cgroup = (np.array([it[place] for it in whos], object) for place in range(3))
    who = samples.who[rows]
    words = [it[1] for it in whos]
    return {
        "at": np.round((samples.at[rows] + T0) * 1e9).astype(np.int64),
        "cpu": samples.cpu[rows].astype(np.uint16),
        "pid": pid[who].astype(np.int32),
        "tid": pid[who].astype(np.int32),
        "comm": [words[it] for it in who.tolist()],
        "cgroup": cgroup[who].astype(np.uint64),
        "stack": samples.stack[rows].astype(np.uint64) + np.uint64(1000),
    }
