"""The recorder of format 1, which wrote *.head.arrows and no other head: recordings of it are still to be read."""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

import pyarrow as pa

from zombiescope.recorder.folder import Folder, create
from zombiescope.recorder.layout import KINDS, META, OLDEST_FORMAT, TROUBLE, file_name
from zombiescope.recorder.reading_rows import ReadingRows
from zombiescope.recorder.room import Room
from zombiescope.recorder.schemas import HEAD, SCHEMAS
from zombiescope.recorder.segment import Rows, as_batch, as_one, write_whole

SEGMENT_SECONDS = 120.0
SEGMENT_SHARE = 0.125  # of the limit: a segment that fills faster ends earlier, so that dropping one is a small loss
SMALLEST = 1 << 20  # bytes: but no segment ends before that, since each begins with every value
MOST_TROUBLES = 20  # distinct ones that are kept; each is written down once a segment at the most
_FULL = (errno.ENOSPC, errno.EDQUOT)


class Segment:
    """The files of one segment."""

    def __init__(self, folder: Folder, at: float) -> None:
        self.name, self._handle = folder.new_segment(at)
        self.bytes = 0  # of the heads
        self._heads: dict[str, tuple[pa.OSFile, pa.ipc.RecordBatchStreamWriter]] = {}
        self._batches: dict[str, list[pa.RecordBatch]] = {kind: [] for kind in KINDS}

    def write(self, kind: str, batch: pa.RecordBatch) -> None:
        """One more batch; it is on disk when this returns."""
        if kind not in self._heads:
            file = self._new(file_name(kind, head=True))
            self._heads[kind] = (file, pa.ipc.new_stream(file, SCHEMAS[kind], options=HEAD))
        file, stream = self._heads[kind]
        before = file.tell()
        stream.write_batch(batch)
        os.fdatasync(file.fileno())
        self.bytes += file.tell() - before
        self._batches[kind].append(batch)

    def finish(self) -> None:
        """Write each kind as one batch, then remove the head. If that fails, the head stays and is just as good."""
        for kind, batches in self._batches.items():
            if kind in self._heads:
                self._heads.pop(kind)[0].close()
                write_whole(self._handle, kind, *as_one(kind, batches))
                os.unlink(file_name(kind, head=True), dir_fd=self._handle)
        self.abandon()

    def abandon(self) -> None:
        """Close without rewriting: the heads stay, as after a kill."""
        for file, _ in self._heads.values():
            with suppress(OSError):
                file.close()
        self._heads.clear()
        self._batches = {kind: [] for kind in KINDS}
        if self._handle >= 0:
            os.close(self._handle)
            self._handle = -1

    def _new(self, name: str) -> pa.OSFile:
        """Arrow's own file: unlike a Python one it never writes half of a batch without an error."""
        handle = create(name, self._handle)
        try:
            return pa.OSFile(f"/proc/self/fd/{handle}", "wb")
        finally:
            os.close(handle)


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
        self._most_bytes, self._monotonic = most_bytes, monotonic
        self._readings = ReadingRows(events)
        self.add, self.look = self._readings.add, self._readings.look
        self._folder = Folder(folder)
        self._folder.write(META, json.dumps({"format": OLDEST_FORMAT, **meta}, indent=1).encode())
        self._room = Room(self._folder, seconds=hours * 3600, most_bytes=most_bytes, monotonic=monotonic)
        self._chunks: list[tuple[str, pa.RecordBatch]] = []
        self._segment: Segment | None = None
        self._started = 0.0  # when the segment began, by the monotonic clock
        self.began = 0  # segments so far: to detect a new segment, compare
        self.troubles: list[str] = []  # what could not be written or removed, and why; each once
        self._noted: set[str] = set()  # troubles in this segment
        self._at = 0.0

    @property
    def readings(self) -> int:
        return self._readings.count

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

    def chunk(self, kind: str, columns: Rows) -> None:
        """Samples or stacks, column by column, as they were read."""
        self._chunks.append((kind, as_batch(kind, columns)))

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
        chunks, self._chunks = [*self._chunks, *self._readings.taken()], []
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
        self._readings.begin()
        self._noted.clear()
        self.began += 1

    def _trouble(self, what: str) -> None:
        """In the list once, and once a segment in the recording itself, where `info` finds it."""
        if what not in self.troubles and len(self.troubles) < MOST_TROUBLES:
            self.troubles.append(what)
        if what not in self._noted and len(self._noted) < MOST_TROUBLES:
            self._noted.add(what)
            self._readings.row("events", self._at, TROUBLE, "node", 1.0, self._folder.path, what)

    def close(self) -> None:
        self.rotate()
        self._folder.close()


def _why(error: OSError) -> str:
    """Arrow wraps the system's error message in its own."""
    return os.strerror(error.errno) if error.errno else str(error)
