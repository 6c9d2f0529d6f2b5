"""Read V8's .cpuprofile, as `node --cpu-prof` and Chrome write it: a tree of functions, and the node of each sample.

The format: Chrome DevTools Protocol, Profiler.Profile. Each sample counts as one, as V8's own `hitCount`; times are
microseconds of the machine's clock. Files without samples have only their hit counts, and no times.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from zombiescope.core.samples import Function, Origin, Samples, Who
from zombiescope.profile.gathering import Gathering

FORMAT = "cpuprofile"
_ROOT, _IDLE, _NAMELESS = "(root)", "(idle)", "(anonymous)"
_LATEST = 1 << 52  # microseconds: later is nonsense
_MOST_FRAMES = 10_000  # in one stack; also ends a circle of nodes


def shaped(found: dict[str, Any]) -> bool:
    nodes = found.get("nodes")
    return isinstance(nodes, list) and bool(nodes) and isinstance(nodes[0], dict) and "callFrame" in nodes[0]


def read(found: dict[str, Any], source: str) -> Samples:
    gathering = Gathering(source)
    nodes = {it["id"]: it for it in found["nodes"]}
    parents = {child: number for number, it in nodes.items() for child in it.get("children") or ()}
    parents |= {number: it["parent"] for number, it in nodes.items() if "parent" in it}
    stacks: dict[int, int | None] = {}
    who, idle = gathering.who(Who(-1, "[all]")), 0
    for number, at, count in _samples(found):
        if number not in stacks:
            functions = [_function(nodes[it]["callFrame"]) for it in _path(number, parents)]
            is_idle = bool(functions) and functions[-1].name == _IDLE
            kept = [gathering.function(it) for it in functions if it.name != _ROOT]
            stacks[number] = None if is_idle else gathering.stack(kept)
        stack = stacks[number]
        if stack is None:
            idle += count
        elif not gathering.full:
            gathering.add(at=at, cpu=-1, tid=-1, who=who, stack=stack, weight=count)
    if idle:
        gathering.note(f"{idle:,} samples while nothing ran are left out")
    timed = bool(found.get("samples"))
    return gathering.capture(clock="machine" if timed else "none", origin=Origin(FORMAT, "V8", "CPU time"))


def _samples(found: dict[str, Any]) -> Iterator[tuple[int, int, int]]:
    """The node of each, its time in nanoseconds, and how often it was seen."""
    if not found.get("samples"):
        yield from ((it["id"], 0, int(it["hitCount"])) for it in found["nodes"] if it.get("hitCount", 0) > 0)
        return
    at = int(found.get("startTime") or 0)
    deltas = found.get("timeDeltas") or [0] * len(found["samples"])
    for number, delta in zip(found["samples"], deltas, strict=True):
        at += int(delta)
        if not 0 <= at <= _LATEST:
            raise ValueError(f"{at} is no time")
        yield number, at * 1000, 1


def _path(number: int, parents: dict[int, int]) -> list[int]:
    """From the root to a node."""
    path = [number]
    while (above := parents.get(path[-1])) is not None and len(path) < _MOST_FRAMES:
        path.append(above)
    return path[::-1]


def _function(frame: dict[str, Any]) -> Function:
    return Function(str(frame["functionName"]) or _NAMELESS, False, str(frame.get("url") or ""))
