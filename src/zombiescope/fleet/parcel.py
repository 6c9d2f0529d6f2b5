"""What one node gives of one hour, as one object: a line of JSON, then all tables as Arrow streams, packed with zstd.

One object is there whole or not at all, so an hour can be shipped again after any fault and still counts once. Arrow
and not Parquet: a compactor opens thousands of them, and Parquet takes far longer to open (docs/decisions.md).

What is opened here was chosen by a node. Its size is known before it is unpacked, columns are checked, texts are cut,
rows of other nodes and other hours are left out. A fault costs only the parcel, or the table, that has it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from zombiescope.fleet.hours import Hour
from zombiescope.fleet.reach import Cores, also, cores_in, within_reach
from zombiescope.fleet.schemas import LONGEST_TEXT, MOST_CLIP, MOST_LABELS, TABLES, Table

MAGIC = "zombiescope-parcel-1"
MOST_PARCEL = 16 << 20  # bytes; 5 MB a node-day is the goal, an hour is some 200 KB
MOST_UNPACKED = 128 << 20  # bytes
LONGEST_HEAD = 4096  # bytes
LEVEL = 3  # of zstd: 139 MB where snappy has 187, for less CPU time than either needs to compress
_TIMES = ("ts", "started")
Tables = dict[str, pa.Table]


class Refused(Exception):
    """A parcel that cannot be used, and why."""


def packed(tables: Mapping[str, pa.Table]) -> bytes:
    """The same rows give the same bytes."""
    parts, sizes = [], {}
    for name, table in tables.items():
        if table.num_rows:
            out = pa.BufferOutputStream()
            with pa.ipc.new_stream(out, TABLES[name].schema) as stream:
                stream.write_table(table.cast(TABLES[name].schema).combine_chunks())
            parts.append(out.getvalue().to_pybytes())
            sizes[name] = len(parts[-1])
    body = b"".join(parts)
    packed_body = pa.Codec("zstd", compression_level=LEVEL).compress(body, asbytes=True)
    digest = hashlib.blake2b(packed_body, digest_size=16).hexdigest()
    head = json.dumps({"format": MAGIC, "size": len(body), "tables": sizes, "digest": digest}, separators=(",", ":"))
    return head.encode() + b"\n" + bytes(packed_body)


def parquet(shape: Table, table: pa.Table) -> bytes:
    """As files of the store are written: sorted, zstd, times that grow slowly as differences."""
    out = pa.BufferOutputStream()
    delta = {name: "DELTA_BINARY_PACKED" for name in _TIMES if name in shape.schema.names}
    unlike = [it.name for it in shape.schema if pa.types.is_nested(it.type) or pa.types.is_binary(it.type)]
    plain = [it for it in shape.schema.names if it not in delta and it not in unlike]
    pq.write_table(
        table,
        out,
        compression="zstd",
        compression_level=LEVEL,
        row_group_size=122_880,
        use_dictionary=plain,
        column_encoding=delta,
        write_statistics=[*delta, "node_id"],
    )
    return bytes(out.getvalue())


def unpacked(content: bytes, node: int, hour: Hour) -> tuple[Tables, list[str]]:
    """The tables of one parcel, checked; and what was left out, in words."""
    tables, left_out = {}, []
    for name, table in opened(content).items():
        try:
            found, less = checked(name, table, np.full(table.num_rows, node, np.uint64), hour)
        except (pa.ArrowException, OSError, ValueError, OverflowError, MemoryError, TypeError, KeyError) as error:
            left_out.append(f"{name}: {error}"[:200])
            continue
        if less:
            left_out.append(f"{name}: {less} rows of other hours, or more than an hour can have")
        if found.num_rows:
            tables[name] = found
    if "nodes" not in tables:
        raise Refused("; ".join(dict.fromkeys(left_out)) or "it does not say which node it is of")
    tables, beyond = reachable(tables)
    return tables, [*left_out, *beyond.values()]


def reachable(tables: Tables) -> tuple[Tables, dict[int, str]]:
    """Of one parcel or of many: without figures that a node's own cores cannot reach; and the nodes that sent such."""
    found: Tables = {}
    told: dict[int, str] = {}
    cores = Cores()
    for name in (it for it in TABLES if it in tables):  # nodes come first, and say how many cores there are
        found[name], beyond = within_reach(name, tables[name], cores)
        cores = cores_in(found[name]) if name == "nodes" else cores
        told = also(told, beyond)
    return found, told


def head_of(content: bytes) -> tuple[int, int, list[tuple[str, int]]]:
    """Where its body begins, how long that is when unpacked, and how long each table in it: nothing is unpacked."""
    end = content.find(b"\n", 0, LONGEST_HEAD)
    try:
        head = json.loads(content[: max(end, 0)])
        size, sizes, digest = int(head["size"]), dict(head["tables"]), str(head["digest"])
        places = [(str(name), int(its)) for name, its in sizes.items()]
        if head["format"] != MAGIC or min((its for _, its in places), default=0) < 0:
            raise ValueError("another format")
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise Refused(f"not a parcel: {error}"[:200]) from error
    if len(content) > MOST_PARCEL or not 0 < size <= MOST_UNPACKED or sum(its for _, its in places) != size:
        raise Refused(f"larger than a parcel can be, {MOST_PARCEL >> 20} MB and {MOST_UNPACKED >> 20} MB unpacked")
    if hashlib.blake2b(memoryview(content)[end + 1 :], digest_size=16).hexdigest() != digest:
        raise Refused("damaged, or cut short")
    return end + 1, size, places


def opened(content: bytes) -> Tables:
    """The tables as the node sent them: of bounded size, and otherwise not checked."""
    start, size, places = head_of(content)
    tables: Tables = {}
    try:
        body = pa.py_buffer(memoryview(content)[start:])
        whole = pa.Codec("zstd").decompress(body, decompressed_size=size)
        at = 0
        for name, its in places:
            if name in TABLES and its:
                table = pa.ipc.open_stream(whole.slice(at, its)).read_all()
                if table.nbytes > 2 * MOST_UNPACKED or table.num_rows > 4 * TABLES[name].most:
                    raise Refused(f"{name}: {table.num_rows} rows; {TABLES[name].most} are an hour's at most")
                tables[name] = table
            at += its
    except (pa.ArrowException, OSError, ValueError, MemoryError, TypeError, KeyError) as error:
        raise Refused(f"not Arrow: {error}"[:200]) from error
    return tables


def plain(name: str, table: pa.Table) -> bool:
    """Whether it has exactly our columns and no more rows than it may: then many can be checked at once."""
    return bool(table.schema.equals(TABLES[name].schema)) and table.num_rows <= TABLES[name].most


def checked(
    name: str, read: pa.Table, nodes: np.ndarray[tuple[int], np.dtype[np.uint64]], hour: Hour
) -> tuple[pa.Table, int]:
    """With our columns only, of these nodes (one for each row) and this hour; and how many rows were left out."""
    shape = TABLES[name]
    if len(set(read.column_names)) != len(read.column_names):
        raise ValueError("a column that is there twice")
    read = read.select([it for it in read.column_names if it in shape.schema.names])
    read.validate(full=True)
    columns = [_column(read, field) for field in shape.schema]
    columns[0] = pa.array(nodes)
    table = pa.table(columns, schema=shape.schema)
    # What goes on is told with the hour in which it was seen to end: a job may have begun days before.
    at = next((it for it in ("ts", "ended") if it in shape.schema.names), None)
    kept = table
    if at is not None:
        micro = table[at].cast(pa.int64())
        last = hour.end * 1_000_000 - (at == "ts")
        inside = pc.and_(pc.greater_equal(micro, hour.start * 1_000_000), pc.less_equal(micro, last))
        if name == "findings":  # what it costs is counted over that time
            began = table["started"].cast(pa.int64())
            inside = pc.and_(
                inside, pc.and_(pc.greater_equal(began, hour.start * 1_000_000), pc.less_equal(began, micro))
            )
        kept = table.filter(inside)
    kept = kept if plain(name, read) or len(np.unique(nodes)) > 1 else kept.slice(0, shape.most)
    return kept, table.num_rows - kept.num_rows


def _column(table: pa.Table, field: pa.Field) -> pa.ChunkedArray | pa.Array:
    if field.name not in table.column_names:
        return pa.nulls(table.num_rows, field.type)
    column = table[field.name]
    if pa.types.is_map(field.type):
        return _labels(column)
    column = column.cast(field.type)
    if pa.types.is_string(field.type):
        longest = pc.max(pc.binary_length(column)).as_py()  # in bytes, which needs no look at the text
        return (
            column if longest is None or longest <= LONGEST_TEXT else pc.utf8_slice_codeunits(column, 0, LONGEST_TEXT)
        )
    if pa.types.is_binary(field.type):
        return pc.if_else(pc.less_equal(pc.binary_length(column), MOST_CLIP), column, pa.scalar(None, field.type))
    if pa.types.is_floating(field.type):
        return pc.if_else(pc.is_finite(column), column, None)
    return column


def _labels(column: pa.ChunkedArray) -> pa.Array:
    cut = [
        {str(key)[:LONGEST_TEXT]: str(value)[:LONGEST_TEXT] for key, value in (row or [])[:MOST_LABELS]}
        for row in column.to_pylist()
    ]
    return pa.array([list(it.items()) for it in cut], TABLES["nodes"].schema.field("labels").type)
