"""The recording being written: readings in, segments out; bounded in time and bytes, the oldest segment dropped first.

A value is written when it changed or a minute has passed; every sample time is written, so that a value that stayed
the same is distinguished from one that was not read. Segments end by the monotonic clock: the wall clock may be set.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Sequence
from typing import Any

from zombiescope.core import Blind, Reading
from zombiescope.recorder.folder import Folder
from zombiescope.recorder.layout import FORMAT, META, SCHEMAS
from zombiescope.recorder.room import Room
from zombiescope.recorder.segment import Rows, Segment

SEGMENT_SECONDS = 120.0
SEGMENT_SHARE = 0.125  # of the limit: a segment that fills faster ends earlier, so that dropping one is a small loss
SMALLEST = 1 << 20  # bytes: but no segment ends before that, since each begins with every value
MINUTE = 60.0  # seconds after which an unchanged value is written once more
LOOKED, UNSEEN, TROUBLE = "looked", "unseen", "recorder_trouble"
MOST_TROUBLES = 20  # distinct ones that are kept; each is written down once a segment at the most
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Journal:
    """A folder that is being recorded into. One recorder at a time."""

    def __init__(
        self,
        folder: str,
        meta: dict[str, Any],
        *,
        hours: float,
        most_bytes: int,
        events: Sequence[str],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._most_bytes, self._events, self._monotonic = most_bytes, frozenset(events), monotonic
        self._folder = Folder(folder)
        self._folder.write(META, json.dumps({"format": FORMAT, **meta}, indent=1).encode())
        self._room = Room(self._folder, seconds=hours * 3600, most_bytes=most_bytes, monotonic=monotonic)
        self._last: dict[tuple[str, str], tuple[float, float, str, str]] = {}  # value, time, text and source
        self._partly: set[str] = set()  # probes that at some time could not read everything
        self._chunks: list[tuple[str, Rows]] = []
        self._rows: dict[str, dict[str, list[Any]]] = {}
        self._segment: Segment | None = None
        self._started = 0.0  # when the segment began, by the monotonic clock
        self.began = 0  # segments so far: to detect a new segment, compare
        self.readings = 0
        self.troubles: list[str] = []  # what could not be written or removed, and why; each once
        self._noted: set[str] = set()  # troubles in this segment
        self._at = 0.0
        self._empty()

    @property
    def dropped(self) -> int:
        """Segments dropped, the oldest first."""
        return self._room.dropped

    @property
    def full(self) -> str:
        """Why recording cannot go on within the limit; empty if it can."""
        return self._room.full

    @property
    def bytes(self) -> int:
        return sum(map(self._folder.size, self.segments()))

    def segments(self) -> list[str]:
        return self._folder.segments()

    def add(self, reading: Reading) -> None:
        self.readings += 1
        kind = "events" if reading.what in self._events else "series"
        if kind == "series":
            key = (reading.what, reading.subject)
            last = self._last.get(key)
            if (
                last is not None
                and last[0] == reading.value
                and abs(reading.at - last[1]) < MINUTE  # also if the clock was set back
                and last[2] == reading.text
                and last[3] == reading.source
            ):
                return
            self._last[key] = (reading.value, reading.at, reading.text, reading.source)
        self._row(kind, reading.at, reading.what, reading.subject, reading.value, reading.source, reading.text)

    def look(self, name: str, gives: Sequence[str], at: float, unseen: Sequence[Blind] = ()) -> None:
        """All of `gives` was sampled; `unseen` could not be read. One reason for all of it takes one row."""
        missed = {blind.what: blind for blind in unseen}
        whole = [blind for what in gives if (blind := missed.get(what)) is not None and not blind.subject]
        if whole and len(whole) == len(gives) and len({(it.source, it.why) for it in whole}) == 1:
            self._row("series", at, LOOKED, f"probe:{name}", 0.0, whole[0].source, whole[0].why)
            return
        self._row("series", at, LOOKED, f"probe:{name}", 1.0, "", "")
        if unseen:
            self._partly.add(name)
        if name not in self._partly:
            return
        for what in gives:
            blind = missed.get(what)
            # 1: not read at all; 2: not read for one subject only; 0: read again.
            value = 0.0 if blind is None else 2.0 if blind.subject else 1.0
            source, why = (blind.source, blind.why) if blind else ("", "")
            last = self._last.get((UNSEEN, what))
            if last is None or (last[0], last[2], last[3]) != (value, why, source):
                self._last[UNSEEN, what] = (value, at, why, source)
                self._row("series", at, UNSEEN, what, value, source, why)

    def chunk(self, kind: str, columns: Rows) -> None:
        """Samples or stacks, column by column, as they were read."""
        self._chunks.append((kind, columns))

    def flush(self, at: float) -> None:
        """Write all that came since the last flush to disk, and end the segment when it is full.

        In this order: what was added before a flush belongs to the current segment.
        """
        self._at = at
        self._write(at)
        if self._segment is not None and (
            self._monotonic() - self._started >= SEGMENT_SECONDS
            or self._segment.bytes >= max(SMALLEST, SEGMENT_SHARE * self._most_bytes)
        ):
            self.rotate()

    def _write(self, at: float) -> None:
        """If the disk is full, drop the oldest segment and continue."""
        chunks = [*self._chunks, *((kind, rows) for kind, rows in self._rows.items() if rows["at"])]
        self._empty()
        for attempt in (1, 2, 3):
            try:
                if self._segment is None:
                    self._segment, self._started = Segment(self._folder, at), self._monotonic()
                while chunks:
                    self._segment.write(*chunks[-1])
                    chunks.pop()
                return
            except OSError as error:
                if self._segment is not None:
                    self._segment.abandon()
                    self._begin_anew()
                if error.errno not in _FULL or attempt == 3 or not self._room.drop_oldest():
                    self._trouble(f"{_why(error)}: a part of the recording is lost")
                    return
                self._trouble(f"{_why(error)}: the oldest segment was dropped")

    def rotate(self) -> None:
        """End the segment: rewrite it as one file per kind, and make room."""
        if self._segment is not None:
            try:
                self._segment.finish()
            except OSError as error:
                self._trouble(f"{_why(error)}: a segment stays uncompressed")
                self._segment.abandon()
            self._room.lasted(self._segment.name, self._monotonic() - self._started)
        self._begin_anew()
        self._room.make()
        for stuck in self._room.stuck:
            self._trouble(stuck)

    def _begin_anew(self) -> None:
        """Each segment is self-contained: the next one begins with every value."""
        self._segment = None
        self._last.clear()
        self._noted.clear()
        self.began += 1

    def _trouble(self, what: str) -> None:
        """In the list once, and once a segment in the recording itself, where `info` finds it."""
        if what not in self.troubles and len(self.troubles) < MOST_TROUBLES:
            self.troubles.append(what)
        if what not in self._noted and len(self._noted) < MOST_TROUBLES:
            self._noted.add(what)
            self._row("events", self._at, TROUBLE, "node", 1.0, self._folder.path, what)

    def close(self) -> None:
        self.rotate()
        self._folder.close()

    def _row(self, kind: str, at: float, what: str, subject: str, value: float, source: str, text: str) -> None:
        rows = self._rows[kind]
        rows["at"].append(round(at * 1e9))
        rows["what"].append(what)
        rows["subject"].append(_utf8(subject))
        rows["value"].append(value)
        rows["source"].append(_utf8(source))
        rows["text"].append(_utf8(text) if text else None)

    def _empty(self) -> None:
        self._rows = {kind: {name: [] for name in SCHEMAS[kind].names} for kind in ("series", "events")}
        self._chunks = []


def _utf8(text: str) -> str:
    """Arrow stores UTF-8 only; other bytes are escaped."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _why(error: OSError) -> str:
    """Arrow wraps the system's error message in its own."""
    return os.strerror(error.errno) if error.errno else str(error)
