"""The events of a text of `perf script`: how many samples each has, and what its periods say."""

from __future__ import annotations

from array import array
from typing import NamedTuple

import numpy as np

from zombiescope.core.samples import Ints
from zombiescope.profile.events import chosen, is_clock, plain
from zombiescope.profile.gathering import named

OURS = "samples"  # the event that our own export writes for counts: its period is how many
_MOST = 10_000  # names: a file can have any number of them; from some on they are one


class _Kind:
    def __init__(self, number: int) -> None:
        self.number, self.count = number, 0
        self.periods: set[int] = set()  # two are enough to know
        self.weighed = True  # every sample has a period


class Choice(NamedTuple):
    """The event that is shown."""

    name: str
    counts: dict[str, int]  # of samples, by event
    rows: Ints | None  # of its samples; None for all
    unit: str
    hz: float  # 0 where it does not say
    weighed: bool  # a period is what the sample stands for


class Kinds:
    """All events so far, and the number of each sample's."""

    def __init__(self) -> None:
        self._kinds: dict[bytes, _Kind] = {}
        self._of = array("i")

    def add(self, name: bytes, period: int) -> None:
        """One more sample; a period of 0 is none."""
        kind = self._kinds.get(name)
        if kind is None:
            kind = self._kinds.setdefault(name if len(self._kinds) < _MOST else b"", _Kind(len(self._kinds)))
        kind.weighed &= period > 0
        if len(kind.periods) < 2:
            kind.periods.add(period)
        kind.count += 1
        self._of.append(kind.number)

    def chosen(self, wanted: str | None, source: str) -> Choice:
        kinds: dict[str, list[_Kind]] = {}
        for raw, kind in self._kinds.items():
            kinds.setdefault(plain(named(raw)), []).append(kind)
        counts = {name: sum(it.count for it in its) for name, its in kinds.items()}
        name = chosen(counts, wanted, source)
        its = kinds.get(name, [])
        periods = set[int]().union(*(it.periods for it in its))
        weighed = all(it.weighed for it in its)
        clock = weighed and is_clock(name) and bool(periods)
        # Where each covers the same time, they are counted as samples, as other tools do.
        even = clock and len(periods) == 1
        rows = None if len(kinds) < 2 else np.flatnonzero(np.isin(np.array(self._of), [it.number for it in its]))
        unit = "nanoseconds" if clock and not even else "samples"
        kept = unit == "nanoseconds" or (weighed and name == OURS)
        return Choice(name, counts, rows, unit, 1e9 / min(periods) if even else 0.0, kept)
