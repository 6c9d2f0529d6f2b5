"""Functions that a just-in-time compiler put into each other: perf-map-agent names them together, `A->B`.

perf-map-agent's `unfold` options write one entry of a perf map for a place in A into which B was compiled. As
stackcollapse-perf.pl does, such a frame becomes several, the outer one first.
"""

from __future__ import annotations

import re

import numpy as np

from zombiescope.core.samples import Frames, Function

# The map's own name in text, what was mapped in perf.data. Elsewhere `->` may be C++.
_JIT = re.compile(r".*/perf-\d{1,10}\.map|//anon|/memfd:.*|\[anon.*|/dev/zero.*|/anon_hugepage.*|/SYSV.*", re.DOTALL)
_BETWEEN = "->"
_MOST = 64  # in one name


def unfolded(frames: Frames) -> Frames:
    """The same stacks, with a frame for each function."""
    many = {place for place, it in enumerate(frames.functions) if _BETWEEN in it.name and _is_jit(it)}
    if not many:
        return frames
    number: dict[Function, int] = {}
    parts: list[list[int]] = []
    for place, function in enumerate(frames.functions):
        names = function.name.split(_BETWEEN, _MOST) if place in many else [function.name]
        each = [function._replace(name=name) for name in names if name or len(names) == 1]
        parts.append([number.setdefault(it, len(number)) for it in each])
    lengths = np.array([len(it) for it in parts], np.int64)
    begins = np.cumsum(lengths) - lengths
    flat = np.array([it for part in parts for it in part], np.int32)
    counts = lengths[frames.of]
    ends = np.append(0, np.cumsum(counts))
    of = flat[np.repeat(begins[frames.of] - ends[:-1], counts) + np.arange(ends[-1])]
    return Frames(functions=list(number), of=of, starts=ends[frames.starts])


def _is_jit(function: Function) -> bool:
    return not function.kernel and _JIT.fullmatch(function.module) is not None
