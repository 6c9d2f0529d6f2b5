"""Readings as rows of a segment: what probes fetched, parsed by their own code, and one rule for what is written.

A parser that fails costs its own probe those looks that it fails at, and nobody else anything. A value is written when
it changed or a minute has passed; every sample time is written, so that a value that stayed the same is distinguished
from one that was not read. Live and recorded, by the same code.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from types import ModuleType
from typing import Any

import numpy as np
import numpy.typing as npt

from zombiescope.core import Blind, Reading, Unreadable
from zombiescope.kernel.columns import Column
from zombiescope.members.rooms import Broken, guarded, member, names
from zombiescope.recorder.changes import MINUTE, Changes
from zombiescope.recorder.clock import nanoseconds, seconds
from zombiescope.recorder.costs import Costs
from zombiescope.recorder.head import FETCHED, RECORDER, SAME, SAMPLE, Record
from zombiescope.recorder.layout import LOOKED, UNSEEN
from zombiescope.recorder.looked import Looked
from zombiescope.recorder.own_forks import OwnProcesses
from zombiescope.recorder.rows import Rows, joined, of_columns, of_lists, utf8
from zombiescope.recorder.sample_text import LATEST, sample_of
from zombiescope.recorder.sampling import failure

AT_ONCE = 8 << 20  # bytes of one probe's looks that are parsed together
TOGETHER = MINUTE / 2  # seconds of them: a parser may leave out what did not change, and a minute later it is due again
# A head may come from a stranger; as objects of Python its bytes take up to thirty times as much memory.
MOST_FETCHED = MOST_SAMPLE = 4 << 20  # bytes: /proc/stat of 192 cores has 0.1 MB, a sample of 500 pods some 0.5 MB
MOST_READINGS = 500_000  # of samples that are parsed together: those of 192 cores are 170,000
# Of rows and their words; a recorder's five minutes take 5 MB, those of 192 cores 60 MB. More, which a stranger's file
# may hold, is left out and counted.
MOST_BYTES = 192 << 20
_ROW, _KEY = 32, 500  # bytes: of a row in columns; and of what is known of each thing
_NAMES = ("at", "what", "subject", "value", "source", "text")
ROWS_AT_ONCE = 50_000  # rows that are held as Python's objects, about 10 MB


class ReadingRows:
    """The rows of one segment: the next one begins with every value."""

    def __init__(self, events: Iterable[str] = ()) -> None:
        self._events = frozenset(events)
        self.count = 0  # readings, those that changed nothing included
        self.left_out: Counter[str] = Counter()  # by what they say
        self._bytes: Counter[str] = Counter()
        self._left = MOST_BYTES
        self._looked = Looked()
        self._kept: dict[str, list[Rows]] = {"series": [], "events": []}
        self._empty()
        self.begin()

    def begin(self) -> None:
        """A new segment: nothing is known of the last one."""
        self._changes = Changes()
        self._looked.begin()

    def add(self, reading: Reading) -> None:
        self.count += 1
        if reading.what in self._events:
            self._row("events", reading.at, reading.what, reading.subject, reading.value, reading.source, reading.text)
        elif self._has_room(0, reading.what):
            known = len(self._changes)
            if self._changes.is_new(reading):
                self._row(
                    "series", reading.at, reading.what, reading.subject, reading.value, reading.source, reading.text
                )
            self._take(_KEY * (len(self._changes) - known), reading.what)

    def add_column(self, column: Column) -> None:
        """Many readings of one thing, which is no event, within half a minute."""
        self.count += len(column.at)
        first, last = (
            Reading(what=column.what, subject=column.subject, value=value, at=at, source=column.source)
            for value, at in ((float(column.values[it]), float(column.at[it])) for it in (0, -1))
        )
        begin = 0 if self._changes.is_new(first) else 1
        if begin < len(column.at):
            self._changes.written(last)
            whole = np.floor(column.at[begin:])
            ns = whole.astype(np.int64) * 1_000_000_000 + np.rint((column.at[begin:] - whole) * 1e9).astype(np.int64)
            if self._has_room(_KEY + _ROW * len(ns), column.what):
                self._columns.append((column, ns, column.values[begin:]))

    def look(self, name: str, gives: Sequence[str], at: float, unseen: Sequence[Blind] = ()) -> None:
        """All of `gives` was sampled; `unseen` could not be read."""
        if self._has_room(_ROW, LOOKED):
            for note in self._looked.look(name, gives, at, unseen):
                self._row("series", at, UNSEEN, note.what, note.value, note.source, note.why)

    def look_again(self, name: str, times: Sequence[float]) -> None:
        """As at the look just before, which was written."""
        if times and self._has_room(_ROW * len(times), LOOKED):
            self._looked.again(name, times)

    def of(self, kind: str) -> Rows:
        """All rows of a kind, in the order they were written."""
        self._pack()
        self._kept[kind] = [joined(self._kept[kind])]
        return self._kept[kind][0]

    def taken(self, kind: str) -> Rows:
        """The same, and they are let go."""
        found, self._kept[kind] = self.of(kind), []
        return found

    def _row(self, kind: str, at: float, what: str, subject: str, value: float, source: str, text: str) -> None:
        if self._has_room(_ROW + len(subject) + len(source) + len(text), what):
            self.row(kind, at, what, subject, value, source, text)

    def row(self, kind: str, at: float, what: str, subject: str, value: float, source: str, text: str) -> None:
        """One row, whatever was written before and however much."""
        rows = self._rows[kind]
        rows["at"].append(nanoseconds(at))
        rows["what"].append(what)
        rows["subject"].append(utf8(subject))
        rows["value"].append(float(value))  # a count beyond 2^53 is rounded, not refused
        rows["source"].append(utf8(source))
        rows["text"].append(utf8(text) if text else None)
        if len(rows["at"]) >= ROWS_AT_ONCE:
            self._pack()

    def _has_room(self, size: int, what: str) -> bool:
        """Nothing gets more than is left for all others: what one program makes long costs only its own series."""
        if self._bytes[what] + size > self._left:
            self.left_out[what] += 1
            return False
        self._take(size, what)
        return True

    def _take(self, size: int, what: str) -> None:
        self._bytes[what] += size
        self._left -= size

    def _pack(self) -> None:
        for kind, it in self._rows.items():
            if it["at"]:
                self._kept[kind].append(of_lists(it))
        if self._columns:
            self._kept["series"].append(of_columns(self._columns))
        if self._looked:
            self._kept["series"].append(self._looked.taken())
        self._empty()

    def _empty(self) -> None:
        self._columns: list[tuple[Column, npt.NDArray[np.int64], npt.NDArray[np.float64]]] = []
        self._rows: dict[str, dict[str, list[Any]]] = {
            kind: {name: [] for name in _NAMES} for kind in ("series", "events")
        }


class SettledProbes:
    """Takes the looks of one head."""

    def __init__(self, rows: ReadingRows, gives: Mapping[str, Sequence[str]], ours: OwnProcesses | None = None) -> None:
        """`gives`: as the recording says what each probe gives."""
        self._rows, self._gives, self._ours = rows, gives, ours
        self._looks: dict[str, list[tuple[float, bytes]]] = {}
        self._sizes: dict[str, int] = {}
        self._last: dict[str, bytes] = {}
        self._unseen: dict[str, Sequence[Blind]] = {}  # by probes that parse at once, in their last sample
        self._costs = Costs()
        self.damage: list[str] = []

    def take(self, probe: str, record: Record, ahead: int | None) -> None:
        """One record of a head; `ahead`: unix time minus its clock, if that is known."""
        if record.kind == FETCHED:
            self._unseen.pop(probe, None)  # what is the same from here on is the same as this
        if ahead is not None and (record.kind == FETCHED or (record.kind == SAME and probe not in self._unseen)):
            content = bytes(record.content) if record.kind == FETCHED else None
            self.fetched(probe, seconds(record.at + ahead), content)
        elif (said := self.sample(probe, record, ahead)) is not None:
            if probe in self._looks:  # of when it could be fetched: looks are written in the order they were made
                self._tell(probe)
            self.look(probe, *said)

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

    def sample(self, probe: str, record: Record, ahead: int | None) -> tuple[float, Sequence[Blind]] | None:
        """The readings of a probe that parses at once; its time, and what it could not read. None: it says nothing."""
        if record.kind == SAME:
            at, unseen = seconds(record.at + (ahead or 0)), self._unseen.get(probe)
            return (at, unseen) if unseen is not None and ahead is not None and 0 <= at < LATEST else None
        if record.kind != SAMPLE:
            return None
        said = sample_of(record.content) if len(record.content) <= MOST_SAMPLE else None
        if said is None:
            self._note(f"probe {probe}: a sample that is not understood")
            return None
        at, readings, blind, cost = said
        self._unseen[probe] = blind
        for reading in readings:
            self._rows.add(reading)
            if self._ours is not None and probe == RECORDER:
                self._ours.said(reading)
        if cost > 0 and (mean := self._costs.mean(probe, at, cost)) is not None:
            self._rows.add(mean)
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
        begins = sorted(since)
        for begin, end in pairwise([*begins, len(looks)]):
            self.look(name, looks[begin][0], since[begin])
            self._rows.look_again(name, [at for at, _ in looks[begin + 1 : end]])

    def _parsed(
        self, name: str, probe: ModuleType, looks: list[tuple[float, bytes]], places: list[int]
    ) -> Iterator[tuple[int, Sequence[Blind]]]:
        """From which look on what could not be read."""
        columns: list[Column | Blind] = []
        if len(looks) > 1 and hasattr(probe, "columns"):
            broken = guarded(lambda: columns.extend(probe.columns(looks) or ()))
            if columns and not isinstance(broken, Broken):
                for column in columns:
                    if not isinstance(column, Blind):
                        self._rows.add_column(column)
                yield places[0], [it for it in columns if isinstance(it, Blind)]
                return
        said: list[Reading | Blind] = []
        failed = failure(name, probe, said, lambda: said.extend(_bounded(name, probe.readings(looks))))
        times = Counter(it for it in said if isinstance(it, Blind))
        blind = list(times) if failed is None else failed
        # One that fails may not cost the others; and what some of them could not read is noted of those.
        if len(looks) > 1 and (failed is not None or any(many != len(looks) for many in times.values())):
            for look, place in zip(looks, places, strict=True):
                yield from self._parsed(name, probe, [look], [place])
            return
        for it in said if failed is None else ():
            if not isinstance(it, Blind):
                self._rows.add(it)
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
