"""What a source is, in one line on stderr or as JSON: format, producer, event or value, samples, cores, span."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import numpy as np

from zombiescope.core import harmless, lasting
from zombiescope.core.samples import Samples

_SECOND = 1_000_000_000
_MOST_OTHERS = 8  # names in the line; the JSON has all
_MOST_CORES = 65_536  # more than any kernel can be built for
_LONGEST = 120  # characters of a name


def line(capture: Samples) -> str:
    """`perf.data by perf 6.1 on n1: cpu-clock, 206,096 samples on 2 cores over 105 s`."""
    origin = capture.origin
    producer = f" by {harmless(origin.producer, most=300)}" if origin.producer else ""
    measure = f"{harmless(origin.measure, most=_LONGEST)}, " if origin.measure else ""
    one = len(capture) == 1
    size = "1 sample" if one else f"{len(capture):,} samples"
    total = int(capture.weight.sum())
    if capture.unit == "samples" and total != len(capture):
        size += f" that count{'s' * one} {total:,}"
    cores = len(_cores(capture))
    where = f" on {cores} core{'s' if cores > 1 else ''}" if cores else ""
    others = [harmless(it, most=_LONGEST) for it in origin.others[:_MOST_OTHERS]]
    if len(origin.others) > _MOST_OTHERS:
        others.append(f"{len(origin.others) - _MOST_OTHERS} more")
    choice = f"; {origin.option} also takes {', '.join(others)}" if others else ""
    return f"{origin.format or 'samples'}{producer}: {measure}{size}{where}, {_span(capture)}{choice}"


def shape(capture: Samples) -> dict[str, Any]:
    """The same for programs."""
    origin = capture.origin
    timed = capture.clock != "none" and len(capture) > 0
    return {
        "format": origin.format,
        "producer": harmless(origin.producer, most=300),
        "shown": harmless(origin.measure, most=_LONGEST),
        "others": [harmless(it, most=_LONGEST) for it in origin.others],
        "option": origin.option,
        "difference": capture.parted is not None,
        "samples": len(capture),
        "total": int(capture.weight.sum()),
        "unit": capture.unit,
        "hz": capture.hz,
        "clock": capture.clock,
        "start_nanoseconds": capture.start if timed else None,
        "end_nanoseconds": capture.end if timed else None,
        "cores": _cores(capture),
        "processes": len({who.pid for who in capture.whos if who.pid >= 0}),
        "notes": [harmless(note) for note in capture.notes],
    }


def missing(capture: Samples) -> list[str]:
    """What has no names, by file or by what stands in its place, most first."""
    counts: dict[str, int] = {}
    frames = capture.frames
    weights = np.bincount(capture.stack, minlength=len(frames))
    lengths = np.diff(frames.starts)
    used = np.bincount(frames.of, np.repeat(weights, lengths), len(frames.functions)).astype(np.int64).tolist()
    for function, count in zip(frames.functions, used, strict=True):
        if count and function.name.startswith(("[", "0x")):
            place = "the kernel" if function.kernel else harmless(function.module) or "unknown files"
            counts[place] = counts.get(place, 0) + count
    largest = sorted(counts.items(), key=lambda it: (-it[1], it[0]))[:_MOST_OTHERS]
    return [f"names of {place}: {count:,} frames without" for place, count in largest]


def when(at: int, capture: Samples) -> str:
    """A time as people read it: the time of day, or seconds since the machine booted."""
    if capture.clock == "unix":
        return datetime.fromtimestamp(at // _SECOND, UTC).strftime("%H:%M:%S")
    return f"{at / _SECOND:.15g} s"


def told(amount: float, capture: Samples) -> str:
    """An amount in the capture's unit."""
    if capture.origin.option == "--value" and capture.origin.measure:
        kind, _, unit = capture.origin.measure.rpartition(" in ")
        return (
            f"{amount / _SECOND:.3f} s of {kind}"
            if capture.unit == "nanoseconds"
            else f"{amount:,.0f} {unit} of {kind}"
        )
    return f"{amount / _SECOND:.3f} s of CPU time" if capture.unit == "nanoseconds" else f"{amount:,.0f} samples"


def _cores(capture: Samples) -> list[int]:
    if not len(capture) or int(capture.cpu.max()) >= _MOST_CORES:
        return sorted(set(capture.cpu[capture.cpu >= 0].tolist()))
    seen = np.bincount(capture.cpu[capture.cpu >= 0])
    found: list[int] = np.flatnonzero(seen).tolist()
    return found


def _span(capture: Samples) -> str:
    if capture.clock == "none" or not len(capture):
        return "no times"
    if capture.end - capture.start <= 1:
        return "all at one time"
    return f"over {lasting((capture.end - capture.start) / _SECOND)}"
