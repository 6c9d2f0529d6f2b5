"""What one node gives of one hour, as one object: a zip with a Parquet file for each table.

One object is there whole or not at all, so an hour can be shipped again after any fault and still counts once. What is
opened here was chosen by a node: sizes are known before anything is unpacked, columns are checked, texts are cut, rows
of other nodes and other hours are left out. A fault costs only the parcel, or the table, that has it.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zombiescope.fleet.hours import Hour
from zombiescope.fleet.schemas import LONGEST_TEXT, MOST_LABELS, TABLES, Table

MOST_PARCEL = 64 << 20  # bytes; 5 MB a node-day is the goal, an hour is some 200 KB
MOST_UNPACKED = 256 << 20  # bytes of one table, as Parquet itself says
LEVEL = 3  # of zstd: 139 MB where snappy has 187, for less CPU time than either needs to compress
_TIMES = ("ts", "started")


class Refused(Exception):
    """A parcel that cannot be used, and why."""


def packed(tables: Mapping[str, pa.Table]) -> bytes:
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w", zipfile.ZIP_STORED) as file:
        for name, table in tables.items():
            if table.num_rows:
                info = zipfile.ZipInfo(f"{name}.parquet")  # without a date: the same rows give the same bytes
                file.writestr(info, parquet(TABLES[name], table.cast(TABLES[name].schema)))
    return out.getvalue()


def parquet(shape: Table, table: pa.Table) -> bytes:
    """As files of the store are written: sorted, zstd, times and ids that grow slowly as differences."""
    out = pa.BufferOutputStream()
    delta = {name: "DELTA_BINARY_PACKED" for name in _TIMES if name in shape.schema.names}
    texts = [it.name for it in shape.schema if it.name not in delta and not pa.types.is_nested(it.type)]
    pq.write_table(
        table,
        out,
        compression="zstd",
        compression_level=LEVEL,
        row_group_size=122_880,
        use_dictionary=texts,
        column_encoding=delta,
        write_statistics=[*delta, "node_id"],
    )
    return bytes(out.getvalue())


def unpacked(content: bytes, node: int, hour: Hour) -> tuple[dict[str, pa.Table], list[str]]:
    """The tables of one parcel, checked; and what was left out, in words."""
    if len(content) > MOST_PARCEL:
        raise Refused(f"larger than {MOST_PARCEL >> 20} MB")
    tables: dict[str, pa.Table] = {}
    left_out: list[str] = []
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as file:
            for info in file.infolist():
                name = info.filename.removesuffix(".parquet")
                if name not in TABLES or name in tables:
                    left_out.append("a file that is no table")
                elif info.compress_type != zipfile.ZIP_STORED or info.file_size > MOST_PARCEL:
                    left_out.append(f"{name}: packed, or too large")
                else:
                    _add(tables, left_out, name, file.read(info), node, hour)
    except (zipfile.BadZipFile, OSError, ValueError, EOFError, zlib.error, NotImplementedError, RuntimeError) as error:
        raise Refused(f"not a zip of tables: {error}"[:200]) from error
    if "nodes" not in tables:
        raise Refused("; ".join(dict.fromkeys(left_out)) or "it does not say which node it is of")
    return tables, left_out


def _add(tables: dict[str, pa.Table], left_out: list[str], name: str, content: bytes, node: int, hour: Hour) -> None:
    try:
        table, less = checked(name, content, node, hour)
    except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, TypeError, KeyError) as error:
        left_out.append(f"{name}: {error}"[:200])
        return
    if less:
        left_out.append(f"{name}: {less} rows of other hours, or more than an hour can have")
    if table.num_rows:
        tables[name] = table


def checked(name: str, content: bytes, node: int, hour: Hour) -> tuple[pa.Table, int]:
    """One table with our columns only, of this node and hour; and how many rows were left out."""
    shape = TABLES[name]
    file = pq.ParquetFile(pa.BufferReader(content))
    groups = range(file.metadata.num_row_groups)
    if sum(file.metadata.row_group(it).total_byte_size for it in groups) > MOST_UNPACKED:
        raise ValueError(f"more than {MOST_UNPACKED >> 20} MB when unpacked")
    if file.metadata.num_rows > 4 * shape.most:
        raise ValueError(f"{file.metadata.num_rows} rows; {shape.most} are an hour's at most")
    known = [it for it in file.schema_arrow.names if it in shape.schema.names]
    if len(set(known)) != len(known):
        raise ValueError("a column that is there twice")
    read = file.read(columns=known, use_threads=False)
    read.validate(full=True)
    columns = [_column(read, field) for field in shape.schema]
    columns[0] = pa.array(np.full(read.num_rows, node, np.uint64))
    table = pa.table(columns, schema=shape.schema)
    kept = table
    for at in (it for it in _TIMES if it in shape.schema.names):
        micro = table[at].cast(pa.int64())
        inside = pc.and_(pc.greater_equal(micro, hour.start * 1_000_000), pc.less(micro, hour.end * 1_000_000))
        # What began before this hour and still goes on is told with the hour in which it ended, or is a job's start.
        if at == "started":
            end = table["ended"].cast(pa.int64())
            inside = pc.and_(pc.greater_equal(end, hour.start * 1_000_000), pc.less_equal(end, hour.end * 1_000_000))
        kept = table.filter(inside)
    kept = kept.slice(0, shape.most)
    return kept, table.num_rows - kept.num_rows


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    if field.name not in table.column_names:
        return pa.nulls(table.num_rows, field.type)
    column = table[field.name]
    if pa.types.is_map(field.type):
        return _labels(column.to_pylist())
    column = column.cast(field.type)
    if pa.types.is_string(field.type):
        return pc.utf8_slice_codeunits(column, 0, LONGEST_TEXT)
    if pa.types.is_floating(field.type):
        return pc.if_else(pc.is_finite(column), column, None)
    return column


def _labels(rows: list[list[tuple[str, str]] | None]) -> pa.Array:
    cut = [
        {str(key)[:LONGEST_TEXT]: str(value)[:LONGEST_TEXT] for key, value in (row or [])[:MOST_LABELS]} for row in rows
    ]
    return pa.array([list(it.items()) for it in cut], TABLES["nodes"].schema.field("labels").type)
