"""The last readings of a recording that grows, in memory and bounded: a timeline of the last minutes at any time."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence

import numpy as np

from zombiescope.core import Blind, Reading
from zombiescope.core.timeline import Series, Timeline
from zombiescope.kernel.columns import Column
from zombiescope.recorder.readings import ReadingRows
from zombiescope.top.frame import CENSUS, CPU, NEEDS

KEPT = 6  # readings of what is read each second
KEPT_LONG = 60  # readings of what says how cgroups grow: five minutes
MOST_SUBJECTS = 5_000  # of one thing: processes of a node with a fork storm
GONE = 60.0  # seconds without a reading: a process that ended

_Row = tuple[float, float, str, str]  # time, value, source, text


class Store(ReadingRows):
    """Takes readings as a segment would, and keeps only the last of what a frame needs."""

    def __init__(self) -> None:
        super().__init__()
        self._values: dict[str, dict[str, deque[_Row]]] = {what: {} for what in NEEDS}
        self._seen: dict[str, deque[_Row]] = {}

    def add(self, reading: Reading) -> None:
        own = self._values.get(reading.what)
        if own is None:
            return
        rows = own.get(reading.subject)
        if rows is None:
            if len(own) >= MOST_SUBJECTS:
                return
            rows = own[reading.subject] = deque(maxlen=KEPT_LONG if reading.what in CENSUS else KEPT)
        rows.append((reading.at, float(reading.value), reading.source, reading.text))

    def add_column(self, column: Column) -> None:
        for at, value in zip(column.at.tolist(), column.values.tolist(), strict=True):
            self.add(Reading(what=column.what, subject=column.subject, value=value, at=float(at), source=column.source))

    def look(self, name: str, gives: Sequence[str], at: float, unseen: Sequence[Blind] = ()) -> None:  # noqa: ARG002
        missed = {it.what: it for it in unseen if not it.subject}
        for what in gives:
            if what in self._values:
                rows = self._seen.setdefault(what, deque(maxlen=KEPT_LONG if what in CENSUS else KEPT + 2))
                blind = missed.get(what)
                rows.append((at, 0.0, blind.source, blind.why) if blind else (at, 1.0, "", ""))

    def timeline(self, now: float) -> Timeline:
        """All that is kept; who was not read for a minute is dropped."""
        series = []
        for what, own in self._values.items():
            if what not in CENSUS and what not in CPU:
                for subject in [it for it, rows in own.items() if rows[-1][0] < now - GONE]:
                    del own[subject]
            until = self._seen[what][-1][0] if what in self._seen else 0.0
            series += [_series(what, subject, rows, until) for subject, rows in own.items()]
        looks = {what: _series("looked", what, rows, 0.0) for what, rows in self._seen.items()}
        return Timeline(series, looks)


def _series(what: str, subject: str, rows: deque[_Row], until: float) -> Series:
    at, values, sources, texts = zip(*rows, strict=True)
    return Series(
        what=what,
        subject=subject,
        at=np.array(at),
        values=np.array(values),
        until=max(until, at[-1]),
        sources=sources[-1:],
        texts={place: text for place, text in enumerate(texts) if text},
    )
