"""The files of a settled segment: none has a name until it is complete (O_TMPFILE), so a kill leaves no leftovers."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import Any

import pyarrow as pa

from zombiescope.recorder.folder import PRIVATE_FILE, create
from zombiescope.recorder.layout import FIRST, LAST, file_name
from zombiescope.recorder.schemas import SCHEMAS, WHOLE

Rows = Mapping[str, Any]  # columns by name: lists or arrays


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


def write_whole(folder: int, kind: str, batches: Iterable[pa.RecordBatch], times: tuple[int, int] | None) -> None:
    """A finished file, which says when its first and its last row was; one of this name is replaced."""
    name, part = file_name(kind, head=False), ""
    said = {} if times is None else {FIRST: str(times[0]), LAST: str(times[1])}
    schema = SCHEMAS[kind].with_metadata(said)
    try:
        handle = os.open(".", os.O_TMPFILE | os.O_WRONLY | os.O_CLOEXEC, PRIVATE_FILE, dir_fd=folder)
    except OSError:  # a file system without O_TMPFILE: another name until it is complete
        part = f"{name}.part"
        with suppress(FileNotFoundError):
            os.unlink(part, dir_fd=folder)
        handle = create(part, folder)
    path = f"/proc/self/fd/{handle}"
    try:
        with pa.OSFile(path, "wb") as file, pa.ipc.new_stream(file, schema, options=WHOLE) as stream:
            for batch in batches:
                stream.write_batch(batch)
        os.fdatasync(handle)
        if part:
            os.replace(part, name, src_dir_fd=folder, dst_dir_fd=folder)
            return
        with suppress(FileNotFoundError):  # of one who was killed before the head was removed
            os.unlink(name, dir_fd=folder)
        # link(2) would link the symbolic link itself; only linkat(2), which Python uses with a folder, follows it.
        os.link(path, name, dst_dir_fd=folder, follow_symlinks=True)
    finally:
        os.close(handle)


def as_one(kind: str, batches: list[pa.RecordBatch]) -> tuple[list[pa.RecordBatch], tuple[int, int] | None]:
    """All rows as one batch, and the times of the first and the last."""
    table = pa.Table.from_batches(batches, SCHEMAS[kind]).unify_dictionaries().combine_chunks()
    if not table.num_rows or "at" not in table.column_names:
        return table.to_batches(), None
    at = table["at"].to_numpy()
    return table.to_batches(), (int(at.min()), int(at.max()))
