"""A clip: a small cut of a node's recording around what harmed it most in an hour; unpacked, it is a recording again.

Readings and events of the segments around that moment, samples of the last seconds before it and the first after it,
and the stacks that these name. As many seconds as fit: a clip has at most a megabyte. One line of JSON, then each
file. What is unpacked here was chosen by a node: names of files are ours, sizes are known before anything is written,
and what is in the files is checked by the reader of recordings.
"""

from __future__ import annotations

import json
import os
from datetime import UTC
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from zombiescope.core import Span, UserError, harmless
from zombiescope.fleet.schemas import MOST_CLIP
from zombiescope.recorder.layout import FIRST, KINDS, LAST, META, file_name, is_segment, segment_name
from zombiescope.recorder.replay import Recording
from zombiescope.recorder.schemas import SCHEMAS, WHOLE

MAGIC = "zombiescope-clip-1"
LONGEST_HEAD = 1 << 18  # bytes: meta.json has some 5 KB
SECONDS = (30.0, 10.0, 3.0)  # of samples before and after the moment; fewer where they do not fit


def moment(tables: dict[str, pa.Table]) -> tuple[float, str] | None:
    """When an hour was at its worst, and of what: the first thing that broke, else the end of the costliest finding."""
    findings = tables.get("findings")
    if findings is None or not findings.num_rows:
        return None
    roots = [it for it in findings.to_pylist() if it["role"] == "root"]
    if not roots:
        return None
    worst = max(roots, key=lambda it: (it["broken"] or 0, (it["waited_cores"] or 0) + (it["burnt_cores"] or 0)))
    said = f"{worst['sign']}: {worst['says']}"
    broke = tables["events"]["ts"].cast(pa.int64()) if "events" in tables else None
    if broke is not None and len(broke):
        return pc.min(broke).as_py() / 1e6, said
    return worst["ended"].replace(tzinfo=UTC).timestamp(), said


def clipped(recording: Recording, at: float) -> tuple[bytes, Span, int]:
    """The clip, how long its samples last and how many they are; nothing if even the readings alone are too many."""
    around = [
        span
        for segment in recording.segments
        if (span := recording.rows_span(segment, "series")).start <= at + 1 and span.end >= at - 1
    ]
    if not around:
        return b"", Span(at, at), 0
    whole = Span(min(it.start for it in around), max(min(it.end, at + 600) for it in around))
    tables = {kind: recording.table(kind, whole) for kind in ("series", "events")}
    for seconds in SECONDS:
        span = Span(at - seconds, at + seconds)
        samples = recording.table("samples", span)
        content = _packed(recording, whole, {**tables, "samples": samples, "stacks": _stacks(recording, span, samples)})
        if len(content) <= MOST_CLIP:
            return content, span, samples.num_rows
    return b"", Span(at, at), 0


def _stacks(recording: Recording, span: Span, samples: pa.Table) -> pa.Table:
    """Those that the samples name, each once."""
    table = recording.table("stacks", span)
    if not table.num_rows or not samples.num_rows:
        return SCHEMAS["stacks"].empty_table()
    first = np.sort(np.unique(table["stack"].to_numpy(), return_index=True)[1])
    table = table.take(pa.array(first))
    return table.filter(pc.is_in(table["stack"], pc.unique(samples["stack"])))


def _packed(recording: Recording, whole: Span, tables: dict[str, pa.Table]) -> bytes:
    parts = {kind: _file(kind, tables[kind]) for kind in KINDS}
    sizes = {kind: len(its) for kind, its in parts.items()}
    head = {"format": MAGIC, "meta": recording.meta, "segment": segment_name(whole.start), "files": sizes}
    return json.dumps(head, separators=(",", ":")).encode() + b"\n" + b"".join(parts.values())


def _file(kind: str, table: pa.Table) -> bytes:
    """As a recorder leaves it: with the times of its first and its last row."""
    schema, out = SCHEMAS[kind], pa.BufferOutputStream()
    if kind == "samples" and table.num_rows and "weight" not in table.column_names:  # of a version before 0.2
        table = table.append_column("weight", pa.nulls(table.num_rows, pa.int64()))
    table = table.cast(schema) if table.num_rows else schema.empty_table()
    if "at" in schema.names and table.num_rows:
        at = table["at"].to_numpy()
        schema = schema.with_metadata({FIRST: str(at.min()), LAST: str(at.max())})
    with pa.ipc.new_stream(out, schema, options=WHOLE) as stream:
        for batch in table.unify_dictionaries().combine_chunks().to_batches():
            stream.write_batch(batch)
    return bytes(out.getvalue())


def unpack(content: bytes, folder: str) -> None:
    """Into a new folder, which is a recording then; a UserError for what is no clip."""
    meta, segment, files = _opened(content)
    try:
        os.mkdir(folder, 0o700)
        os.mkdir(os.path.join(folder, segment), 0o700)
        written = {META: json.dumps(meta).encode()}
        written |= {os.path.join(segment, file_name(kind, head=False)): its for kind, its in files.items()}
        for name, its in written.items():
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(os.path.join(folder, name), flags, 0o600), "wb") as file:
                file.write(its)
    except OSError as error:
        raise UserError(f"{harmless(folder)}: {(error.strerror or str(error)).lower()}") from error


def _opened(content: bytes) -> tuple[dict[str, Any], str, dict[str, bytes]]:
    end = content.find(b"\n", 0, LONGEST_HEAD)
    try:
        head = json.loads(content[: max(end, 0)])
        meta, segment, sizes = head["meta"], head["segment"], head["files"]
        right = head["format"] == MAGIC and is_segment(segment) and segment.isascii() and isinstance(meta, dict)
        if not right or set(sizes) != set(KINDS) or not all(type(it) is int and it >= 0 for it in sizes.values()):
            raise ValueError("another format")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise UserError(f"not a clip: {harmless(str(error), most=100)}") from error
    if len(content) > MOST_CLIP or sum(sizes.values()) != len(content) - end - 1:
        raise UserError("not a clip: larger than it says, or cut short")
    files, at = {}, end + 1
    for kind, size in sizes.items():
        files[kind] = content[at : at + size]
        at += size
    return meta, segment, files
