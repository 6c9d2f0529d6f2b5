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

from zombiescope.recorder.layout import HEAD, KINDS, SCHEMAS, WHOLE, file_name

Rows = Mapping[str, Any]  # columns by name: lists or arrays


class Segment:
    """The files of one segment."""

    def __init__(self, folder: str) -> None:
        os.mkdir(folder)
        self.folder = folder
        self._heads: dict[str, tuple[pa.OSFile, pa.ipc.RecordBatchStreamWriter]] = {}
        self._batches: dict[str, list[pa.RecordBatch]] = {kind: [] for kind in KINDS}

    def write(self, kind: str, rows: Rows) -> None:
        """One more batch; it is on disk when this returns."""
        batch = as_batch(kind, rows)
        if kind not in self._heads:
            # Arrow's own file: unlike a Python one it never writes half of a batch without an error.
            file = pa.OSFile(self._path(kind, head=True), "wb")
            self._heads[kind] = (file, pa.ipc.new_stream(file, SCHEMAS[kind], options=HEAD))
        file, stream = self._heads[kind]
        stream.write_batch(batch)
        os.fdatasync(file.fileno())
        self._batches[kind].append(batch)

    def finish(self) -> None:
        """Write each kind as one batch, then remove the head. If that fails, the head stays and is just as good."""
        for kind, batches in self._batches.items():
            if kind in self._heads:
                self._heads.pop(kind)[0].close()
                _write_whole(self.folder, file_name(kind, head=False), kind, batches)
                os.unlink(self._path(kind, head=True))
        self._batches = {kind: [] for kind in KINDS}

    def abandon(self) -> None:
        """Close without rewriting: the heads stay, as after a kill."""
        for file, _ in self._heads.values():
            with suppress(OSError):
                file.close()
        self._heads.clear()

    def _path(self, kind: str, *, head: bool) -> str:
        return os.path.join(self.folder, file_name(kind, head=head))


def as_batch(kind: str, rows: Rows) -> pa.RecordBatch:
    schema = SCHEMAS[kind]
    arrays = []
    for field in schema:
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


def _write_whole(folder: str, name: str, kind: str, batches: list[pa.RecordBatch]) -> None:
    table = pa.Table.from_batches(batches, SCHEMAS[kind]).unify_dictionaries().combine_chunks()
    path = os.path.join(folder, name)
    try:
        handle = os.open(folder, os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, 0o644)
        part = f"/proc/self/fd/{handle}"
    except OSError:  # a file system without O_TMPFILE: another name until it is complete
        part = path + ".part"
        handle = os.open(part, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        with pa.OSFile(part, "wb") as file, pa.ipc.new_stream(file, SCHEMAS[kind], options=WHOLE) as stream:
            stream.write_table(table)
        os.fdatasync(handle)
        if part.startswith("/proc/"):
            # link(2) would link the symbolic link itself; only linkat(2), which Python uses with a folder, follows it.
            here = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.link(part, path, src_dir_fd=here, follow_symlinks=True)
            finally:
                os.close(here)
        else:
            os.replace(part, path)
    finally:
        os.close(handle)
