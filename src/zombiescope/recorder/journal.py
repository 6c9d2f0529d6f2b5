"""The recording being written: readings in, segments out; bounded in time and bytes, the oldest segment dropped first.

A value is written when it changed or a minute has passed; every sample time is written, so that a value that stayed
the same is distinguished from one that was not read.
"""

from __future__ import annotations

import fcntl
import json
import os
import shutil
from collections.abc import Sequence
from typing import Any

from zombiescope.core import Blind, Reading, Unreadable, UserError
from zombiescope.recorder.layout import FORMAT, LOCK, META, SCHEMAS, is_segment, segment_name
from zombiescope.recorder.segment import Rows, Segment

SEGMENT_SECONDS = 120.0
MINUTE = 60.0  # seconds after which an unchanged value is written once more
ROOM = 0.9  # of the limit: dropping starts before it, since the next segment needs room
LOOKED, UNSEEN = "looked", "unseen"


class Journal:
    """A folder that is being recorded into. One recorder at a time."""

    def __init__(
        self, folder: str, meta: dict[str, Any], *, hours: float, most_bytes: int, events: Sequence[str]
    ) -> None:
        self.folder, self._hours, self._most_bytes, self._events = folder, hours, most_bytes, frozenset(events)
        try:
            os.makedirs(folder, exist_ok=True)
        except FileExistsError:
            raise UserError(f"{folder}: not a folder: give a folder to record into") from None
        except OSError as error:
            raise UserError(f"{folder}: cannot be created: {(error.strerror or '').lower()}") from error
        self._lock = _locked(folder)
        _clean(folder)
        _write_whole(os.path.join(folder, META), json.dumps({"format": FORMAT, **meta}, indent=1).encode())
        self._last: dict[tuple[str, str], tuple[float, float]] = {}
        self._partly: set[str] = set()  # probes that at some time could not read everything
        self._chunks: list[tuple[str, Rows]] = []
        self._rows: dict[str, dict[str, list[Any]]] = {}
        self._segment: Segment | None = None
        self._began = 0.0
        self.began = 0  # segments so far: to detect a new segment, compare
        self.readings = 0
        self.dropped = 0  # segments dropped, the oldest first
        self.troubles: list[str] = []  # what could not be written, and why
        self._empty()

    def add(self, reading: Reading) -> None:
        self.readings += 1
        kind = "events" if reading.what in self._events else "series"
        if kind == "series":
            key = (reading.what, reading.subject)
            last = self._last.get(key)
            if last is not None and last[0] == reading.value and reading.at - last[1] < MINUTE:
                return
            self._last[key] = (reading.value, reading.at)
        self._row(kind, reading.at, reading.what, reading.subject, reading.value, reading.source, reading.text)

    def look(self, name: str, gives: Sequence[str], at: float, unseen: Sequence[Blind] = ()) -> None:
        failed = len({blind.what for blind in unseen if not blind.subject}) == len(set(gives)) and bool(gives)
        why = unseen[0] if failed else None
        self._row(
            "series", at, LOOKED, f"probe:{name}", float(why is None), why.source if why else "", why.why if why else ""
        )
        if failed or not (unseen or name in self._partly):
            return
        self._partly.add(name)
        missed = {blind.what: blind for blind in unseen}
        for what in gives:
            blind = missed.get(what)
            # 1: not read at all; 2: not read for one subject only; 0: read again.
            value = 0.0 if blind is None else 2.0 if blind.subject else 1.0
            last = self._last.get((UNSEEN, what))
            if (last is None and value) or (last is not None and last[0] != value):
                self._last[UNSEEN, what] = (value, at)
                self._row("series", at, UNSEEN, what, value, blind.source if blind else "", blind.why if blind else "")

    def chunk(self, kind: str, columns: Rows) -> None:
        """Samples or stacks, column by column, as they were read."""
        self._chunks.append((kind, columns))

    def flush(self, at: float) -> None:
        """Write all that came since the last flush to disk, and end the segment when it is full.

        In this order: what was added before a flush belongs to the current segment.
        """
        self._write(at)
        if self._segment is not None and at - self._began >= SEGMENT_SECONDS:
            self.rotate()

    def _write(self, at: float) -> None:
        """If the disk is full, drop the oldest segment and continue."""
        chunks = [*self._chunks, *((kind, rows) for kind, rows in self._rows.items() if rows["at"])]
        self._empty()
        for attempt in (1, 2, 3):
            try:
                if self._segment is None:
                    self._segment, self._began = self._new_segment(at), at
                while chunks:
                    self._segment.write(*chunks[-1])
                    chunks.pop()
                return
            except OSError as error:
                self.troubles.append(f"{_why(error)}: the oldest segment was dropped")
                if self._segment is not None:
                    self._segment.abandon()
                    self._begin_anew()
                if not self._drop_oldest() or attempt == 3:
                    self.troubles[-1] = f"{_why(error)}: one second of the recording is lost"
                    return

    def rotate(self) -> None:
        """End the segment: rewrite it as one file per kind, and make room."""
        if self._segment is not None:
            try:
                self._segment.finish()
            except OSError as error:
                self.troubles.append(f"{_why(error)}: one segment stays uncompressed")
                self._segment.abandon()
        self._begin_anew()
        self._make_room()

    def _begin_anew(self) -> None:
        """Each segment is self-contained: the next one begins with every value."""
        self._segment = None
        self._last.clear()
        self.began += 1

    def keep(self, name: str, content: bytes) -> None:
        """A file beside the segments, written completely or not at all."""
        _write_whole(os.path.join(self.folder, name), content)

    def close(self) -> None:
        self.rotate()
        os.close(self._lock)

    @property
    def bytes(self) -> int:
        return sum(_size(os.path.join(self.folder, name)) for name in self.segments())

    def segments(self) -> list[str]:
        return sorted(name for name in os.listdir(self.folder) if is_segment(name))

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

    def _new_segment(self, at: float) -> Segment:
        """Named by its time, but always later than the previous one: a clock may be set back."""
        latest = int(self.segments()[-1]) if self.segments() else 0
        return Segment(os.path.join(self.folder, segment_name(max(at, latest + 1))))

    def _make_room(self) -> None:
        keep = max(1, round(self._hours * 3600 / SEGMENT_SECONDS))
        while len(self.segments()) > keep or (self.bytes > ROOM * self._most_bytes and len(self.segments()) > 1):
            if not self._drop_oldest():
                return

    def _drop_oldest(self) -> bool:
        current = os.path.basename(self._segment.folder) if self._segment else ""
        for name in self.segments():
            if name != current:
                shutil.rmtree(os.path.join(self.folder, name), ignore_errors=True)
                self.dropped += 1
                return True
        return False


def _utf8(text: str) -> str:
    """Arrow stores UTF-8 only; other bytes are escaped."""
    return text if text.isascii() else text.encode("utf-8", "backslashreplace").decode()


def _why(error: OSError) -> str:
    """Arrow wraps the system's error message in its own."""
    return os.strerror(error.errno) if error.errno else str(error)


def _locked(folder: str) -> int:
    try:
        handle = os.open(os.path.join(folder, LOCK), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise Unreadable(folder, (error.strerror or "").lower()) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(handle)
        raise UserError(f"{folder}: another recorder writes here: stop it, or give another folder") from None
    return handle


def _clean(folder: str) -> None:
    """Remove what a killed recorder left unfinished: heads of finished files, and .part files."""
    for segment in (name for name in os.listdir(folder) if is_segment(name)):
        path = os.path.join(folder, segment)
        for name in os.listdir(path):
            whole = os.path.join(path, name.replace(".head.arrows", ".arrows"))
            if name.endswith(".part") or (name.endswith(".head.arrows") and os.path.exists(whole)):
                os.unlink(os.path.join(path, name))


def _write_whole(path: str, content: bytes) -> None:
    with open(path + ".part", "wb") as file:
        file.write(content)
        file.flush()
        os.fdatasync(file.fileno())
    os.replace(path + ".part", path)


def _size(folder: str) -> int:
    try:
        with os.scandir(folder) as files:
            return sum(file.stat().st_size for file in files)
    except FileNotFoundError:
        return 0
