"""The files of a settled segment: columns in memory as Arrow, and back.

None has a name until it is complete (O_TMPFILE), so a kill leaves no leftovers.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zombiescope.core import Span
from zombiescope.core.root_only import PRIVATE_FILE
from zombiescope.core.samples import Ints
from zombiescope.recorder.arrow_functions import encoded, filled, taken
from zombiescope.recorder.distinct_stacks import CodedStacks, Ids
from zombiescope.recorder.folder import create
from zombiescope.recorder.layout import FIRST, LAST, file_name
from zombiescope.recorder.rows import Rows, Words, coded, joined
from zombiescope.recorder.sample_reader import ALWAYS, Columns, SettledSamples
from zombiescope.recorder.schemas import SCHEMAS, WHOLE
from zombiescope.recorder.stack_names import StackNames

_AT_ONCE = 1024  # stacks in one batch: some 600 KB of names


def as_batch(kind: str, rows: Mapping[str, Any]) -> pa.RecordBatch:
    """Of columns by name: lists or arrays."""
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
    return _dictionary(coded(column))


def _dictionary(words: Words) -> pa.DictionaryArray:
    missing = words.codes < 0
    # A number of a word under each null too: Arrow looks them up when it joins dictionaries.
    codes = _numbers(np.where(missing, 0, words.codes).astype(np.int32), missing)
    return pa.DictionaryArray.from_arrays(codes, pa.array(list(words.words), pa.string()))


def _numbers(values: npt.NDArray[Any], missing: npt.NDArray[np.bool_] | None = None) -> pa.Array:
    """As they are in memory. `pa.array` would import numpy.ma, which takes 15 ms."""
    there = None if missing is None or not missing.any() else pa.py_buffer(np.packbits(~missing, bitorder="little"))
    held = pa.py_buffer(np.ascontiguousarray(values))
    return pa.Array.from_buffers(pa.from_numpy_dtype(values.dtype), len(values), [there, held])


def reading_batch(rows: Rows) -> pa.RecordBatch:
    words = [_dictionary(it) for it in (rows.what, rows.subject, rows.source, rows.text)]
    columns = [_numbers(rows.at), *words[:2], _numbers(rows.value), *words[2:]]
    return pa.record_batch(columns, schema=SCHEMAS["series"])


def sample_batches(found: SettledSamples) -> Iterator[pa.RecordBatch]:
    ids, names = found.names.ids, pa.array(found.comms, pa.string())
    for chunk in found.chunks:
        columns = {name: _numbers(it) for name, it in {**chunk, "stack": ids[chunk["stack"]]}.items()}
        columns.setdefault("weight", pa.nulls(len(chunk["at"]), pa.int64()))
        columns["comm"] = pa.DictionaryArray.from_arrays(columns["comm"], names)
        yield pa.record_batch([columns[name] for name in SCHEMAS["samples"].names], schema=SCHEMAS["samples"])


def stack_batches(names: StackNames) -> Iterator[pa.RecordBatch]:
    """A few at a time: with their names stacks take 600 bytes each."""
    rows, ids, words = names.kept(), names.ids, names.words()
    sizes = np.array([len(it) for it in words], np.int64)
    for begin in range(0, len(rows), _AT_ONCE):
        own = rows[begin : begin + _AT_ONCE]
        codes, lengths, kernel = names.coded(own)
        text = b"".join([words[it] for it in codes.tolist()])
        ends = pa.py_buffer(np.append(0, np.cumsum(sizes[codes])).astype(np.int32))
        said = pa.StringArray.from_buffers(len(codes), ends, pa.py_buffer(text))
        listed = pa.ListArray.from_arrays(_numbers(np.append(0, np.cumsum(lengths)).astype(np.int32)), said)
        yield pa.record_batch([_numbers(ids[own]), listed, _numbers(kernel)], schema=SCHEMAS["stacks"])


def table_of(kind: str, readings: Callable[[str], Rows], samples: SettledSamples) -> pa.Table:
    if kind == "samples":
        batches = list(sample_batches(samples))
    else:
        batches = list(stack_batches(samples.names)) if kind == "stacks" else [reading_batch(readings(kind))]
    return pa.Table.from_batches(batches, SCHEMAS[kind]).unify_dictionaries()


def rows_of(table: pa.Table) -> Rows:
    """Readings as they are on disk."""
    if not table.num_rows:
        return joined(())
    what, subject, source, text = (_coded(table[name]) for name in ("what", "subject", "source", "text"))
    return Rows(table["at"].to_numpy(), what, subject, table["value"].to_numpy(), source, text)


def samples_of(table: pa.Table) -> Columns:
    """Some columns of samples as they are on disk."""
    found: Columns = {name: table[name] for name in table.column_names}
    weight = found.pop("weight", None)
    if weight is not None and weight.null_count < len(weight):
        found["weight"] = filled(weight, 0)
    comm = found.pop("comm", None)
    return {name: it.to_numpy() for name, it in found.items()} | ({} if comm is None else {"comm": _coded(comm)})


@dataclass(frozen=True, slots=True)
class TableOfStacks:
    """Stacks as they are on disk; their names are numbered when they are asked for."""

    table: pa.Table

    @property
    def ids(self) -> Ids:
        found: Ids = self.table["stack"].to_numpy()
        return found

    def only(self, rows: Ints) -> TableOfStacks:
        return TableOfStacks(taken(self.table, rows))

    def coded(self) -> CodedStacks:
        frames = self.table["frames"].combine_chunks()
        offsets = frames.offsets.to_numpy()
        words = encoded(frames.values[offsets[0] : offsets[-1]])
        kernel = self.table["kernel_frames"].to_numpy()
        lengths = np.diff(offsets).astype(np.int64)
        return CodedStacks(self.ids, words.indices.to_numpy(), lengths, kernel, words.dictionary.to_pylist())


@dataclass(frozen=True, slots=True)
class TablePart:
    """Samples and stacks in tables, as a part of a recording."""

    samples_table: pa.Table
    stacks_table: pa.Table
    span: Span = ALWAYS

    @classmethod
    def of(cls, samples: list[pa.RecordBatch], stacks: list[pa.RecordBatch]) -> TablePart:
        return cls(*(pa.Table.from_batches(*it) for it in ((samples, SCHEMAS["samples"]), (stacks, SCHEMAS["stacks"]))))

    def stacks(self) -> tuple[TableOfStacks, bool]:
        return TableOfStacks(self.stacks_table), True

    def samples(self, columns: Sequence[str]) -> Columns:
        return samples_of(self.samples_table.select([it for it in columns if it in self.samples_table.column_names]))


def _coded(column: pa.ChunkedArray) -> Words:
    whole = column.unify_dictionaries().combine_chunks()
    codes: npt.NDArray[np.int32] = filled(whole.indices, -1).to_numpy(zero_copy_only=False).astype(np.int32, copy=False)
    return Words(codes, whole.dictionary.to_pylist())


def write_tables(folder: int, readings: Callable[[str], Rows], samples: Callable[[], SettledSamples]) -> None:
    """The files of a segment, one after the other: what is written is let go before the next is made."""
    for kind in ("series", "events"):
        rows = readings(kind)
        if len(rows):
            write_whole(folder, kind, [reading_batch(rows)], (int(rows.at.min()), int(rows.at.max())))
        del rows
    found = samples()
    if found.times is not None:
        write_whole(folder, "stacks", stack_batches(found.names), None)
        write_whole(folder, "samples", sample_batches(found), found.times)
    os.fsync(folder)


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
