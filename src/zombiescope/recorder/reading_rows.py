"""Readings and samples of probes as rows of a segment: one rule for what is written, live and recorded.

A value is written when it changed or a minute has passed; every sample time is written, so that a value that stayed
the same is distinguished from one that was not read.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from zombiescope.core import Blind, Reading
from zombiescope.recorder.changes import Changes
from zombiescope.recorder.clock import nanoseconds
from zombiescope.recorder.layout import LOOKED, UNSEEN
from zombiescope.recorder.schemas import SCHEMAS
from zombiescope.recorder.segment import as_batch


class ReadingRows:
    """The rows of one segment: the next one begins with every value."""

    def __init__(self, events: Iterable[str] = ()) -> None:
        self._events = frozenset(events)
        self.count = 0  # readings, those left out included
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
        elif self._changes.is_new(reading):
            self._row("series", reading.at, reading.what, reading.subject, reading.value, reading.source, reading.text)

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
        """One row, whatever was written before."""
        self._row(kind, at, what, subject, value, source, text)

    @property
    def waiting(self) -> int:
        """Rows since the last call of `taken`."""
        return len(self._rows["series"]["at"]) + len(self._rows["events"]["at"])

    def taken(self) -> dict[str, pa.RecordBatch]:
        """What came since the last call, by kind; nothing of a kind without rows."""
        rows = self._rows
        self._empty()
        return {kind: as_batch(kind, columns) for kind, columns in rows.items() if columns["at"]}

    def _row(self, kind: str, at: float, what: str, subject: str, value: float, source: str, text: str) -> None:
        rows = self._rows[kind]
        rows["at"].append(nanoseconds(at))
        rows["what"].append(what)
        rows["subject"].append(_utf8(subject))
        rows["value"].append(float(value))  # a count beyond 2^53 is rounded, not refused
        rows["source"].append(_utf8(source))
        rows["text"].append(_utf8(text) if text else None)

    def _empty(self) -> None:
        self._rows: dict[str, dict[str, list[Any]]] = {
            kind: {name: [] for name in SCHEMAS[kind].names} for kind in ("series", "events")
        }


def _utf8(text: str) -> str:
    """Arrow stores UTF-8 only; other bytes are escaped."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()
