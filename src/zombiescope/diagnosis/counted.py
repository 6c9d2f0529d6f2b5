"""The parts of a cost added up, each counted once: a victim's wait along a chain, a second of a core's time.

A part may be a piece of another: a process of a cgroup, a walk of the core that it saturates, anything of the node.
Where both were measured, the whole counts as the larger of itself and all its pieces together, moment by moment.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from zombiescope.core.harm import Part

_INSTANT = 1e-3  # seconds: what has no length still counts
Floats = npt.NDArray[np.float64]


class Spent(NamedTuple):
    """Core-seconds, the time in which they were spent, and by whom, the most first."""

    core_seconds: float
    seconds: float
    by: tuple[tuple[str, float], ...]  # in cores, over the time that each has parts in

    @property
    def cores(self) -> float:
        return self.core_seconds / self.seconds if self.seconds else 0.0


def spent(parts: Sequence[Part]) -> Spent:
    """Cores' worth of time, over the time in which anything was spent."""
    if not parts:
        return Spent(0.0, 0.0, ())
    starts = np.array([it.span.start for it in parts])
    ends = np.array([max(it.span.end, it.span.start + _INSTANT) for it in parts])
    edges = np.unique(np.concatenate([starts, ends]))
    widths = np.diff(edges)
    own: dict[str, Floats] = {}
    for part, first, last in zip(parts, np.searchsorted(edges, starts), np.searchsorted(edges, ends), strict=True):
        line = own.setdefault(part.who, np.zeros(len(widths)))
        line[first:last] = np.maximum(line[first:last], part.amount)
    parents = _parents(parts)
    whole = _whole(own, parents)
    total = np.sum([whole[who] for who in own if who not in parents], axis=0)
    named = [who for who in own if _named(who, parents)]
    by = sorted(((who, _mean(whole[who], widths)) for who in named), key=lambda it: (-it[1], it[0]))
    return Spent(float((total * widths).sum()), float(widths[total > 0].sum()), tuple(by))


def held(parts: Iterable[Part]) -> float:
    """Bytes: what holds them, or a part of it, counts once."""
    every = list(parts)
    own: dict[str, Floats] = {}
    for part in every:
        own[part.who] = np.maximum(own.get(part.who, np.zeros(1)), part.amount)
    parents = _parents(every)
    whole = _whole(own, parents)
    return float(sum(whole[who][0] for who in own if who not in parents))


def broken(parts: Iterable[Part]) -> dict[str, int]:
    """Times, by kind; two counts of the same thing in the same time are one, the larger."""
    groups: dict[tuple[str, str], list[Part]] = {}
    for part in parts:
        groups.setdefault((part.kind, part.who), []).append(part)
    found: dict[str, float] = {}
    for (kind, _), group in groups.items():
        end, most = -np.inf, 0.0
        for part in sorted(group, key=lambda it: it.span.start):
            if part.span.start > end:
                found[kind] = found.get(kind, 0.0) + most
                most = 0.0
            end, most = max(end, part.span.end), max(most, part.amount)
        found[kind] = found.get(kind, 0.0) + most
    return {kind: round(times) for kind, times in found.items() if times}


def _parents(parts: Iterable[Part]) -> dict[str, str]:
    """What each is a piece of: the smallest of those that have parts of their own."""
    inside: dict[str, set[str]] = {}
    for part in parts:
        inside.setdefault(part.who, set()).update(part.within)
    found = {}
    for who, within in inside.items():
        around = [it for it in inside if it != who and _holds(it, who, within)]
        if around:
            found[who] = max(around, key=lambda it: (it != "node", it.startswith("cgroup:"), len(it)))
    return found


def _holds(whole: str, who: str, within: set[str]) -> bool:
    if whole == "node" or whole in within:
        return True
    below = whole.rstrip("/") + "/"
    return whole.startswith("cgroup:") and any(it.startswith(below) for it in (who, *within))


def _whole(own: dict[str, Floats], parents: dict[str, str]) -> dict[str, Floats]:
    """Each with all its pieces."""
    pieces: dict[str, list[str]] = {}
    for who, parent in parents.items():
        pieces.setdefault(parent, []).append(who)
    found: dict[str, Floats] = {}

    def worked_out(who: str) -> Floats:
        if who not in found:
            found[who] = own[who]  # what holds itself, by whatever mistake, ends here
            if who in pieces:
                found[who] = np.maximum(own[who], np.sum([worked_out(it) for it in pieces[who]], axis=0))
        return found[who]

    for who in own:
        worked_out(who)
    return found


def _named(who: str, parents: dict[str, str]) -> bool:
    """A process says more than its core or the node; a cgroup says as much as its processes, and is one."""
    vague = ("node", "cpu:")
    if who.startswith(vague):
        return who not in parents.values()
    parent = parents.get(who, "")
    return not parent or parent.startswith(vague)


def _mean(line: Floats, widths: Floats) -> float:
    there = line > 0
    return float((line * widths)[there].sum() / widths[there].sum()) if there.any() else 0.0
