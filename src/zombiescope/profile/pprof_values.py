"""Which of a profile's values is shown: a heap profile has four (objects and bytes, allocated and in use)."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import NamedTuple

from zombiescope.core.errors import Unparsable, UserError
from zombiescope.core.samples import Origin
from zombiescope.core.words import harmless
from zombiescope.profile.gathering import LARGEST

MOST_KINDS = 64  # Go's profiles have up to four, async-profiler's up to eight
COUNTED = "samples"
NANOSECONDS = {"nanoseconds": 1, "microseconds": 1000, "milliseconds": 10**6, "seconds": 10**9}


class Kind(NamedTuple):
    """A kind of value: `inuse_space` in `bytes`."""

    name: str
    unit: str

    def __str__(self) -> str:
        return harmless(f"{self.name or '[no name]'} in {self.unit or 'no unit'}", most=200)

    @property
    def factor(self) -> int:
        """Nanoseconds of one; 0 if it is no time."""
        return NANOSECONDS.get(self.unit, 0)


class Values:
    """A row of values for each sample."""

    def __init__(self, kinds: Sequence[Kind], source: str) -> None:
        if len(kinds) > MOST_KINDS:
            raise Unparsable(source, 0, f"{len(kinds)} kinds of values; at most {MOST_KINDS} are accepted")
        self.kinds = list(kinds) or [Kind(COUNTED, "count")]
        self._source = source
        self._columns = [array("q") for _ in self.kinds]

    def add(self, values: Sequence[int]) -> None:
        """Values that are missing are zero, and those beyond the kinds are not looked at."""
        for place, column in enumerate(self._columns):
            value = values[place] if place < len(values) else 0
            column.append(max(-LARGEST, min(value, LARGEST)))

    def chosen(self, wanted: str | None, default: str) -> int:
        """The kind asked for; else the profile's own choice; else the last that is not all zero."""
        names = [it.name for it in self.kinds]
        if wanted is not None:
            if wanted not in names:
                known = ", ".join(harmless(name, most=200) for name in names)
                raise UserError(f"{self._source} has no value {harmless(wanted)!r}: --value takes {known}")
            return names.index(wanted)
        if default in names:
            return names.index(default)
        filled = [place for place, column in enumerate(self._columns) if any(column)]
        return filled[-1] if filled else len(names) - 1

    def column(self, place: int) -> array[int]:
        return self._columns[place]

    def origin(self, place: int, producer: str) -> Origin:
        others = (harmless(it.name, most=200) for number, it in enumerate(self.kinds) if number != place)
        return Origin("pprof", producer, str(self.kinds[place]), tuple(others), "--value")
