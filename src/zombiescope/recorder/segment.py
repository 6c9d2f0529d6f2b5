"""One segment being written: a small batch per second in its head, and all of it rewritten when it is full.

Nothing older than the last flush is lost by kill -9, nor, since each flush is followed by fdatasync, by a crash of
the machine. The finished file has no name until it is complete (O_TMPFILE), so a kill leaves no leftovers.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from zombiescope.recorder.folder import PRIVATE_FILE, Folder, create
from zombiescope.recorder.layout import FIRST, HEAD, KINDS, LAST, SCHEMAS, WHOLE, file_name

Rows = Mapping[str, Any]  # columns by name: lists or arrays


class Segment:
    """The files of one segment."""

    def __init__(self, folder: Folder, at: float) -> None:
        self.name, self._handle = folder.new_segment(at)
        self.bytes = 0  # of the heads
        self._heads: dict[str, tuple[pa.OSFile, pa.ipc.RecordBatchStreamWriter]] = {}
        self._batches: dict[str, list[pa.RecordBatch]] = {kind: [] for kind in KINDS}

    def write(self, kind: str, rows: Rows) -> None:
        """One more batch; it is on disk when this returns."""
        batch = as_batch(kind, rows)
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
                _write_whole(self._handle, file_name(kind, head=False), kind, batches)
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


def as_batch(kind: str, rows: Rows) -> pa.RecordBatch:
    schema = SCHEMAS[kind]
    arrays: list[pa.Array] = []
    for field in schema:
        if field.name == "weight" and "weight" not in rows:
            arrays.append(pa.nulls(len(arrays[0]), field.type))
            continue
        column = rows[field.name]
        if pa.types.is_dictionary(field.type):
            arrays.append(_words(column))
        else:
            arrays.append(pa.array(column, field.type))
    return pa.record_batch(arrays, schema=schema)


def _words(column: list[str | None]) -> pa.DictionaryArray:
    """By hand: Arrow's own `dictionary_encode` first imports all of pyarrow.compute, 100 ms and 10 MB."""
    codes: dict[str, int] = {}
    indices = [None if word is None else codes.setdefault(word, len(codes)) for word in column]
    return pa.DictionaryArray.from_arrays(pa.array(indices, pa.int32()), pa.array(list(codes), pa.string()))


def _write_whole(folder: int, name: str, kind: str, batches: list[pa.RecordBatch]) -> None:
    table = pa.Table.from_batches(batches, SCHEMAS[kind]).unify_dictionaries().combine_chunks()
    table = table.replace_schema_metadata(_times(table))
    part = ""
    try:
        handle = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, PRIVATE_FILE, dir_fd=folder)
    except OSError:  # a file system without O_TMPFILE: another name until it is complete
        part = f"{name}.part"
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        handle = create(part, folder)
    path = f"/proc/self/fd/{handle}"
    try:
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, table.schema, options=WHOLE) as stream:
            stream.write_table(table)
        os.fdatasync(handle)
        if part:
            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
        else:
            # link(2) would link the symbolic link itself; only linkat(2), which Python uses with a folder, follows it.
            os.link(path, name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(handle)


def _times(table: pa.Table) -> dict[bytes, str]:
    """The times of the first and the last row, so that a reader knows them without unpacking a row."""
    if "at" not in table.column_names or not table.num_rows:
        return {}
    at = table["at"].to_numpy()
    return {FIRST: str(int(at.min())), LAST: str(int(at.max()))}
