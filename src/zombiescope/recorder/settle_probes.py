"""What probes fetched and sampled, out of a head, into rows: parsed by the probe's own code, all looks together.

A parser that fails costs its own probe those looks that it fails at, and nobody else anything.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import partial
from types import ModuleType
from typing import Any

from zombiescope.core import Blind, Reading, Unreadable
from zombiescope.members.rooms import Broken, guarded, member, names
from zombiescope.recorder.changes import MINUTE
from zombiescope.recorder.reading_rows import ReadingRows
from zombiescope.recorder.sampling import COSTS, seen

AT_ONCE = 8 << 20  # bytes of one probe's looks that are parsed together
TOGETHER = MINUTE / 2  # seconds of them: a parser may leave out what did not change, and a minute later it is due again
# A head may come from a stranger; as objects of Python its bytes take up to thirty times as much memory.
MOST_FETCHED = MOST_SAMPLE = 4 << 20  # bytes: /proc/stat of 192 cores has 0.1 MB, a sample of 500 pods some 0.5 MB
MOST_READINGS = 500_000  # of samples that are parsed together: those of 192 cores are 170,000
LATEST = 9e9  # unix seconds: the year 2255. Beyond it a time is damage, and its nanoseconds soon are no 64-bit number


class SettledProbes:
    """Takes the looks of one head."""

    def __init__(self, rows: ReadingRows, gives: Mapping[str, Sequence[str]]) -> None:
        """`gives`: as the recording says what each probe gives."""
        self._rows, self._gives = rows, gives
        self._looks: dict[str, list[tuple[float, bytes]]] = {}
        self._sizes: dict[str, int] = {}
        self._last: dict[str, bytes] = {}
        self.damage: list[str] = []

    def fetched(self, probe: str, at: float, content: bytes | None) -> None:
        """What was read; None: the same as the last time."""
        if content is None:
            content = self._last.get(probe)
            if content is None:
                self._note(f"probe {probe}: the same as nothing")
                return
        elif len(content) > MOST_FETCHED:
            self._note(f"probe {probe}: {len(content):,} bytes: more than is parsed")
            return
        elif 0 <= at < LATEST:
            self._last[probe] = content
            self._sizes[probe] = self._sizes.get(probe, 0) + len(content)
        if not 0 <= at < LATEST:
            self._note(f"probe {probe}: a time out of range")
            return
        looks = self._looks.get(probe)
        if looks and (self._sizes.get(probe, 0) > AT_ONCE or abs(at - looks[0][0]) > TOGETHER):
            self._tell(probe)
        self._looks.setdefault(probe, []).append((at, content))

    def sample(self, probe: str, content: memoryview) -> tuple[float, list[Blind]] | None:
        """The readings of a probe that parses at once; its time, and what it could not read."""
        try:
            if len(content) > MOST_SAMPLE:
                raise ValueError
            at, readings, blind, cost = _sampled(json.loads(bytes(content)))
        except (ValueError, TypeError, KeyError, RecursionError):
            self._note(f"probe {probe}: a sample that is not understood")
            return None
        for reading in readings:
            self._rows.add(reading)
        if cost > 0:
            subject = f"probe:{probe}"
            self._rows.add(Reading(what=COSTS, subject=subject, value=cost, at=at, source="clock_gettime(2)"))
        return at, blind

    def look(self, probe: str, at: float, blind: Sequence[Blind]) -> None:
        # Not loaded for this if the recording says it: all probes together take 0.3 s.
        gives = self._gives.get(probe)
        self._rows.look(probe, getattr(_probe(probe), "GIVES", ()) if gives is None else gives, at, blind)

    def finish(self) -> None:
        for probe in list(self._looks):
            self._tell(probe)

    def _tell(self, name: str) -> None:
        looks = self._looks.pop(name)
        self._sizes[name] = 0
        probe = _probe(name)
        if probe is None or isinstance(probe, Broken) or not hasattr(probe, "readings"):
            why = f"broken: {probe.why}" if isinstance(probe, Broken) else "this version cannot parse what was recorded"
            blind = [Blind(what=what, source=f"probe {name}", why=why) for what in self._gives.get(name, ())]
            for at, _ in looks:
                self.look(name, at, blind)
            return
        # What was the same as before says the same, until a value is due to be written once more.
        parsed, last, last_at = list[int](), b"", 0.0
        for place, (at, content) in enumerate(looks):
            if not place or content is not last or at - last_at >= MINUTE:
                parsed.append(place)
                last, last_at = content, at
        since = dict(self._parsed(name, probe, [looks[it] for it in parsed], parsed))
        unseen: Sequence[Blind] = ()
        for place, (at, _) in enumerate(looks):
            unseen = since.get(place, unseen)
            self.look(name, at, unseen)

    def _parsed(
        self, name: str, probe: ModuleType, looks: list[tuple[float, bytes]], places: list[int]
    ) -> Iterator[tuple[int, Sequence[Blind]]]:
        """From which look on what could not be read."""
        columns = guarded(partial(probe.columns, looks)) if len(looks) > 1 and hasattr(probe, "columns") else None
        if columns is not None and not isinstance(columns, Broken):
            for column in columns:
                if not isinstance(column, Blind):
                    self._rows.add_column(column)
            yield places[0], [it for it in columns if isinstance(it, Blind)]
            return
        readings, blind = seen(name, probe, lambda: _bounded(name, probe.readings(looks)))
        if blind and len(looks) > 1:  # whether it was so at all of them is not said; nor may one cost the others
            for look, place in zip(looks, places, strict=True):
                yield from self._parsed(name, probe, [look], [place])
            return
        for reading in readings:
            self._rows.add(reading)
        yield places[0], blind

    def _note(self, trouble: str) -> None:
        if trouble not in self.damage and len(self.damage) < 20:
            self.damage.append(trouble)


def _bounded(name: str, said: Iterable[Reading | Blind]) -> Iterator[Reading | Blind]:
    for number, it in enumerate(said):
        if number >= MOST_READINGS:
            raise Unreadable(f"probe {name}", f"more than {MOST_READINGS:,} readings at once")
        yield it


def _probe(name: str) -> ModuleType | Broken | None:
    """Of a name that a recording says: only what is a probe here is loaded."""
    return member("probes", name) if name in names("probes") else None


def _sampled(said: Any) -> tuple[float, list[Reading], list[Blind], float]:
    at, cost = _time(said["at"]), _number(said["cost"])
    readings = [
        Reading(
            what=_text(what),
            subject=_text(subject),
            value=_number(value),
            at=_time(its_at),
            source=_text(source),
            text=_text(text),
        )
        for what, subject, value, its_at, source, text in said["readings"]
    ]
    blind = [
        Blind(what=_text(what), source=_text(source), why=_text(why), subject=_text(subject))
        for what, source, why, subject in said["blind"]
    ]
    return at, readings, blind, cost if math.isfinite(cost) else 0.0


def _time(said: Any) -> float:
    at = _number(said)
    if not 0 <= at < LATEST:
        raise ValueError
    return at


def _number(said: Any) -> float:
    if isinstance(said, bool) or not isinstance(said, int | float):
        raise TypeError
    try:
        return float(said)
    except OverflowError:
        raise ValueError from None


def _text(said: Any) -> str:
    if not isinstance(said, str):
        raise TypeError
    return said
