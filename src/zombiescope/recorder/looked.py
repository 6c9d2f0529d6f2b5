"""When each probe sampled, and what it could not read: the most frequent rows of a segment, kept in columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from zombiescope.core import Blind
from zombiescope.recorder.clock import nanoseconds
from zombiescope.recorder.layout import LOOKED
from zombiescope.recorder.rows import Rows, Words, coded, utf8

MOST_REASONS = 5  # of one thing, in its text
_How = tuple[float, str, str]  # 1 if anything could be read, else 0 with the source and the reason
_WELL: _How = (1.0, "", "")


class _Look(NamedTuple):
    unseen: Sequence[Blind]
    how: _How
    notes: int  # how many there were of what is not seen


class Note(NamedTuple):
    """From now on: 1, it is not read at all; 2, not read for one subject; 0, read again."""

    what: str
    value: float
    source: str
    why: str


def _by_what(unseen: Sequence[Blind]) -> dict[str, Blind]:
    """One for each thing: of several subjects that could not be read the first reasons together."""
    found: dict[str, list[Blind]] = {}
    for it in unseen:
        found.setdefault(it.what, []).append(it)
    return {what: its[0] if len(its) == 1 else _together(its) for what, its in found.items()}


def _together(blind: Sequence[Blind]) -> Blind:
    whole = next((it for it in blind if not it.subject), blind[-1])
    distinct = list(dict.fromkeys(it.why for it in blind))
    more = f"; and {len(distinct) - MOST_REASONS} more" if len(distinct) > MOST_REASONS else ""
    return replace(whole, why="; ".join(distinct[:MOST_REASONS]) + more)


class Looked:
    """The looks of one segment, of each probe in the order they were made."""

    def __init__(self) -> None:
        self._known: dict[_How, int] = {}
        self._empty()
        self.begin()

    def begin(self) -> None:
        """Nothing is known of what came before."""
        self._last: dict[str, _Look] = {}
        self._unseen: dict[str, Note] = {}
        self._notes = 0

    def __len__(self) -> int:
        return self._count

    def look(self, probe: str, gives: Sequence[str], at: float, unseen: Sequence[Blind]) -> Sequence[Note]:
        """All of `gives` was sampled, `unseen` could not be read; what is new about that."""
        last, notes = self._last.get(probe), list[Note]()
        if last is not None and last.notes == self._notes and last.unseen == unseen:
            how = last.how
        else:
            missed = _by_what(unseen)
            whole = [blind for what in gives if (blind := missed.get(what)) is not None and not blind.subject]
            if whole and len(whole) == len(gives) and len({(it.source, it.why) for it in whole}) == 1:
                how = (0.0, whole[0].source, whole[0].why)  # one reason for all of it
            else:
                how = _WELL
                if unseen or last is None or last.unseen:
                    notes = self._news(gives, missed)
            self._last[probe] = _Look(unseen, how, self._notes)
        self._add(probe, [at], how)
        return notes

    def again(self, probe: str, times: Sequence[float]) -> None:
        """The same as at its last look, some times more."""
        self._add(probe, times, self._last[probe].how)

    def _add(self, probe: str, times: Sequence[float], how: _How) -> None:
        if probe not in self._at:
            self._at[probe], self._how[probe] = [], []
        self._at[probe] += map(nanoseconds, times)
        self._how[probe] += [self._known.setdefault(how, len(self._known))] * len(times)
        self._count += len(times)

    def _news(self, gives: Sequence[str], missed: Mapping[str, Blind]) -> list[Note]:
        found = []
        for what in gives:
            blind = missed.get(what)
            value = 0.0 if blind is None else 2.0 if blind.subject else 1.0
            note = Note(what, value, blind.source, blind.why) if blind else Note(what, value, "", "")
            if self._unseen.get(what) != note:
                self._unseen[what] = note
                found.append(note)
        self._notes += len(found)
        return found

    def taken(self) -> Rows:
        """All rows so far; they are let go."""
        values, sources, texts = zip(*self._known, strict=True)
        source, text = coded([utf8(it) for it in sources]), coded([utf8(it) if it else None for it in texts])
        how = np.array([it for own in self._how.values() for it in own], np.int64)
        probes = np.repeat(np.arange(len(self._at), dtype=np.int32), [len(own) for own in self._at.values()])
        found = Rows(
            np.array([it for own in self._at.values() for it in own], np.int64),
            Words(np.zeros(len(how), np.int32), (LOOKED,)),
            Words(probes, [f"probe:{utf8(it)}" for it in self._at]),
            np.array(values)[how],
            Words(source.codes[how], source.words),
            Words(text.codes[how], text.words),
        )
        self._empty()
        return found

    def _empty(self) -> None:
        self._at: dict[str, list[int]] = {}
        self._how: dict[str, list[int]] = {}
        self._count = 0
