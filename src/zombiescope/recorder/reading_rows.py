"""Readings and samples of probes as rows of a segment: one rule for what is written, live and recorded.

A value is written when it changed or a minute has passed; every sample time is written, so that a value that stayed
the same is distinguished from one that was not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from zombiescope.core import Blind, Reading
from zombiescope.kernel.columns import Column
from zombiescope.recorder.changes import Changes
from zombiescope.recorder.clock import nanoseconds
from zombiescope.recorder.layout import LOOKED, UNSEEN
from zombiescope.recorder.rows import Rows, Words, coded

# Of rows and their words; a recorder's five minutes take 5 MB, those of 192 cores 60 MB. More, which a stranger's file
# may hold, is left out and counted.
MOST_BYTES = 192 << 20
_ROW, _KEY = 32, 500  # bytes: of a row in columns; and of what is known of each thing
_NAMES = ("at", "what", "subject", "value", "source", "text")


class ReadingRows:
    """The rows of one segment: the next one begins with every value."""

    def __init__(self, events: Iterable[str] = ()) -> None:
        self._events = frozenset(events)
        self.count = 0  # readings, those that changed nothing included
        self.left_out = 0
        self._bytes = 0
        self._empty()
        self.begin()

    def begin(self) -> None:
        """A new segment: nothing is known of the last one."""
        self._changes = Changes()
        self._unseen: dict[str, tuple[float, str, str]] = {}  # by series: value, text and source
        self._begun: set[str] = set()  # probes of which it is written what they could read

    def add(self, reading: Reading) -> None:
        self.count += 1
        if reading.what in self._events:
            self._row("events", reading.at, reading.what, reading.subject, reading.value, reading.source, reading.text)
        elif self._has_room(0):
            known = len(self._changes)
            if self._changes.is_new(reading):
                self._row(
                    "series", reading.at, reading.what, reading.subject, reading.value, reading.source, reading.text
                )
            self._bytes += _KEY * (len(self._changes) - known)

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
            if self._has_room(_KEY + _ROW * len(ns)):
                self._columns.append((column, ns, column.values[begin:]))

    def look(self, name: str, gives: Sequence[str], at: float, unseen: Sequence[Blind] = ()) -> None:
        """All of `gives` was sampled; `unseen` could not be read. One reason for all of it takes one row."""
        missed = {blind.what: blind for blind in unseen}
        whole = [blind for what in gives if (blind := missed.get(what)) is not None and not blind.subject]
        if whole and len(whole) == len(gives) and len({(it.source, it.why) for it in whole}) == 1:
            self._row("series", at, LOOKED, f"probe:{name}", 0.0, whole[0].source, whole[0].why)
            return
        self._row("series", at, LOOKED, f"probe:{name}", 1.0, "", "")
        if not unseen and name in self._begun:
            return
        if unseen:
            self._begun.discard(name)  # until it can read everything
        else:
            self._begun.add(name)
        for what in gives:
            blind = missed.get(what)
            # 1: not read at all; 2: not read for one subject only; 0: read again.
            value = 0.0 if blind is None else 2.0 if blind.subject else 1.0
            source, why = (blind.source, blind.why) if blind else ("", "")
            if self._unseen.get(what) != (value, why, source):
                self._unseen[what] = (value, why, source)
                self._row("series", at, UNSEEN, what, value, source, why)

    def row(self, kind: str, at: float, what: str, subject: str, value: float, source: str, text: str) -> None:
        """One row, whatever was written before and however much."""
        self._written(kind, at, what, subject, value, source, text)

    @property
    def waiting(self) -> int:
        """Rows since the last call of `taken`."""
        return len(self._rows["series"]["at"]) + len(self._rows["events"]["at"])

    def taken(self) -> list[tuple[str, Rows]]:
        """What came since the last call, with its kind; nothing of a kind without rows."""
        rows, columns = self._rows, self._columns
        self._empty()
        said = [(kind, _as_rows(it)) for kind, it in rows.items() if it["at"]]
        return [*said, ("series", _of_columns(columns))] if columns else said

    def _row(self, kind: str, at: float, what: str, subject: str, value: float, source: str, text: str) -> None:
        if self._has_room(_ROW + len(subject) + len(source) + len(text)):
            self._written(kind, at, what, subject, value, source, text)

    def _written(self, kind: str, at: float, what: str, subject: str, value: float, source: str, text: str) -> None:
        rows = self._rows[kind]
        rows["at"].append(nanoseconds(at))
        rows["what"].append(what)
        rows["subject"].append(_utf8(subject))
        rows["value"].append(float(value))  # a count beyond 2^53 is rounded, not refused
        rows["source"].append(_utf8(source))
        rows["text"].append(_utf8(text) if text else None)

    def _has_room(self, size: int) -> bool:
        self._bytes += size
        if self._bytes > MOST_BYTES:
            self.left_out += 1
        return self._bytes <= MOST_BYTES

    def _empty(self) -> None:
        self._columns: list[tuple[Column, npt.NDArray[np.int64], npt.NDArray[np.float64]]] = []
        self._rows: dict[str, dict[str, list[Any]]] = {
            kind: {name: [] for name in _NAMES} for kind in ("series", "events")
        }


def _as_rows(lists: dict[str, list[Any]]) -> Rows:
    what, subject, source, text = (coded(lists[name]) for name in ("what", "subject", "source", "text"))
    return Rows(np.array(lists["at"], np.int64), what, subject, np.array(lists["value"]), source, text)


def _of_columns(columns: Sequence[tuple[Column, npt.NDArray[np.int64], npt.NDArray[np.float64]]]) -> Rows:
    sizes = [len(values) for _, _, values in columns]

    def words(name: str) -> Words:
        own = coded([_utf8(getattr(it, name)) for it, _, _ in columns])
        return own._replace(codes=np.repeat(own.codes, sizes))

    at, values = (np.concatenate([it[place] for it in columns]) for place in (1, 2))
    no_text = Words(np.full(len(at), -1, np.int32), ())
    return Rows(at, words("what"), words("subject"), values, words("source"), no_text)


def _utf8(text: str) -> str:
    """Files of a segment hold UTF-8 only; other bytes are escaped."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
