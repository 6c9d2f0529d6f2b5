"""Read speedscope's own format, which py-spy, rbspy, dotnet-trace and others write too.

The format: speedscope.app/file-format-schema.json. A file has profiles, mostly one for each thread, either of samples
with weights or of calls and returns with their times. Those of one unit are read as one.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zombiescope.core.samples import Function, Origin, Samples, Who
from zombiescope.core.words import harmless
from zombiescope.profile.gathering import Gathering, Rounding
from zombiescope.profile.kernel_files import UNKNOWN, kernel_module
from zombiescope.profile.pprof_values import NANOSECONDS

FORMAT = "speedscope"
OURS = "zombiescope"  # our own files have the whole machine first, and then all of it again by core
_LONGEST = 1 << 53  # in any unit: what is beyond is no time
_MOST_FRAMES = 10_000  # in one stack: deeper ones are cut, at their inner end
_NOT_TIME = ("none", "bytes")


def shaped(found: dict[str, Any]) -> bool:
    return isinstance(found.get("profiles"), list) and isinstance(found.get("shared"), dict)


def read(found: dict[str, Any], source: str) -> Samples:
    gathering = Gathering(source)
    functions = [_function(it) for it in found["shared"]["frames"]]
    profiles, ours = found["profiles"], str(found.get("exporter", "")).startswith(OURS)
    unit = _unit(profiles[0]) if profiles else "none"
    timed = not ours and unit not in _NOT_TIME
    rounded, left_out = Rounding(), 0
    for profile in profiles[:1] if ours else profiles:
        if _unit(profile) != unit:
            left_out += 1
            continue
        _take(profile, gathering, functions, rounded, factor=NANOSECONDS.get(unit, 1), ours=ours, timed=timed)
    if left_out:
        gathering.note(f"{left_out:,} profiles of another unit than {unit} are left out")
    return gathering.capture(
        unit="nanoseconds" if unit in NANOSECONDS else "samples",
        clock="machine" if timed else "none",
        origin=Origin(
            FORMAT, harmless(str(found.get("exporter") or ""), most=100), f"time in {unit}" * (timed or ours)
        ),
    )


def _unit(profile: dict[str, Any]) -> str:
    unit = str(profile.get("unit", "none"))
    return unit if unit in NANOSECONDS else "none" if unit != "bytes" else unit


def _function(frame: dict[str, Any]) -> Function:
    file = str(frame.get("file") or "")
    module = kernel_module(file)
    name = str(frame["name"]) or UNKNOWN
    return Function(name, False, file) if module is None else Function(name, True, module)


def _take(
    profile: dict[str, Any],
    gathering: Gathering,
    functions: list[Function],
    rounded: Rounding,
    *,
    factor: int,
    ours: bool,
    timed: bool,
) -> None:
    comm = str(profile.get("name") or "") or "[all]"
    known = dict[tuple[int, ...], tuple[int, int]]()
    at = float(profile.get("startValue") or 0)
    for places, weight in _events(profile) if profile["type"] == "evented" else _samples(profile):
        if gathering.full:
            return
        if not 0 <= weight <= _LONGEST / factor or not 0 <= at <= _LONGEST / factor:
            raise ValueError(f"{weight} at {at} is no weight")
        key = places[:_MOST_FRAMES]
        pair = known.get(key)
        if pair is None:
            stack = [_at(functions, it) for it in key]
            who = stack.pop(0).name if ours and stack else comm
            pair = known[key] = gathering.who(Who(-1, who)), gathering.stack(list(map(gathering.function, stack)))
        if whole := rounded(weight * factor):
            time = round(at * factor) if timed else 0
            gathering.add(at=time, cpu=-1, tid=-1, who=pair[0], stack=pair[1], weight=whole)
        at += weight if timed else 0


def _samples(profile: dict[str, Any]) -> Iterator[tuple[tuple[int, ...], float]]:
    for places, weight in zip(profile["samples"], profile["weights"], strict=True):
        yield tuple(places), weight


def _events(profile: dict[str, Any]) -> Iterator[tuple[tuple[int, ...], float]]:
    """Between two events everything that was called and did not return is the stack."""
    open_ones: list[int] = []
    before = float(profile.get("startValue") or 0)
    for event in profile["events"]:
        at = event["at"]
        if at > before:
            yield tuple(open_ones), at - before
            before = at
        if event["type"] == "O":
            open_ones.append(event["frame"])
        elif open_ones and open_ones[-1] == event["frame"]:
            open_ones.pop()
        else:
            raise ValueError(f"a return from frame {event['frame']}, which is not the innermost")


def _at(functions: list[Function], place: int) -> Function:
    if place < 0:
        raise IndexError(f"no frame {place}")
    return functions[place]
