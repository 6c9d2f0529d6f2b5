"""The recorder of format 1, which wrote *.head.arrows and no other head: recordings of it are still to be read."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from zombiescope.recorder.folder import Folder, create
from zombiescope.recorder.layout import KINDS, META, OLDEST_FORMAT, file_name
from zombiescope.recorder.readings import ReadingRows
from zombiescope.recorder.schemas import HEAD, SCHEMAS
from zombiescope.recorder.segment import as_batch, reading_batch, write_whole

SEGMENT_SECONDS = 120.0


class Segment:
    """The files of one segment."""

    def __init__(self, folder: Folder, at: float) -> None:
        _, self._handle = folder.new_segment(at)
        self._heads: dict[str, tuple[pa.OSFile, pa.ipc.RecordBatchStreamWriter]] = {}
        self._batches: dict[str, list[pa.RecordBatch]] = {kind: [] for kind in KINDS}

    def write(self, kind: str, batch: pa.RecordBatch) -> None:
        """One more batch; it can be read when this returns."""
        if kind not in self._heads:
            file = self._new(file_name(kind, head=True))
            self._heads[kind] = (file, pa.ipc.new_stream(file, SCHEMAS[kind], options=HEAD))
        self._heads[kind][1].write_batch(batch)
        self._batches[kind].append(batch)

    def finish(self) -> None:
        """Write each kind as one batch, then remove the head."""
        for kind, batches in self._batches.items():
            if kind in self._heads:
                self._heads.pop(kind)[0].close()
                write_whole(self._handle, kind, *_as_one(kind, batches))
                os.unlink(file_name(kind, head=True), dir_fd=self._handle)
        os.close(self._handle)

    def _new(self, name: str) -> pa.OSFile:
        """Arrow's own file: unlike a Python one it never writes half of a batch without an error."""
        handle = create(name, self._handle)
        try:
            return pa.OSFile(f"/proc/self/fd/{handle}", "wb")
        finally:
            os.close(handle)


class Journal:
    """A folder that is being recorded into."""

    def __init__(
        self,
        folder: str,
        meta: dict[str, Any],
        *,
        events: Sequence[str],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._monotonic = monotonic
        self._readings = ReadingRows(events)
        self.add, self.look = self._readings.add, self._readings.look
        self._folder = Folder(folder)
        self._folder.write(META, json.dumps({"format": OLDEST_FORMAT, **meta}, indent=1).encode())
        self._chunks: list[tuple[str, pa.RecordBatch]] = []
        self._segment: Segment | None = None
        self._started = 0.0  # when the segment began, by the monotonic clock

    def chunk(self, kind: str, columns: Mapping[str, Any]) -> None:
        """Samples or stacks, column by column, as they were read."""
        self._chunks.append((kind, as_batch(kind, columns)))

    def flush(self, at: float) -> None:
        """Write all that came since the last flush to disk, and end the segment when it is full.

        In this order: what was added before a flush belongs to the current segment.
        """
        if self._segment is None:
            self._segment, self._started = Segment(self._folder, at), self._monotonic()
        rows = ((kind, self._readings.taken(kind)) for kind in ("series", "events"))
        readings = ((kind, reading_batch(own)) for kind, own in rows if len(own))
        for kind, batch in (*self._chunks, *readings):
            self._segment.write(kind, batch)
        self._chunks = []
        if self._monotonic() - self._started >= SEGMENT_SECONDS:
            self.rotate()

    def rotate(self) -> None:
        """End the segment: rewrite it as one file per kind. The next one begins with every value."""
        if self._segment is not None:
            self._segment.finish()
        self._segment = None
        self._readings.begin()

    def close(self) -> None:
        self.rotate()
        self._folder.close()


def _as_one(kind: str, batches: list[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], tuple[int, int] | None]:
    """All rows as one batch, and the times of the first and the last."""
    table = pa.Table.from_batches(batches, SCHEMAS[kind]).unify_dictionaries().combine_chunks()
    if not table.num_rows or "at" not in table.column_names:
        return table.to_batches(), None
    at = table["at"].to_numpy()
    return table.to_batches(), (int(at.min()), int(at.max()))
