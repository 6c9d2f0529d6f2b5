"""Names of functions, and stacks, are the same on every node, so each is kept once; and only if its id is its own hash.

Without that check a node could give the kernel's functions other names for everybody. A hash takes a microsecond, and
a thousand nodes send the same few thousand names: so rows that are alike are found first, by a sum with factors that
are drawn anew each time (nobody can prepare rows that only look alike).
"""

from __future__ import annotations

import os

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zombiescope.fleet.schemas import NAMES_ONCE, function_id, stack_id

DEEPEST = 1024  # functions of one stack


def once(table: str, rows: pa.Table) -> pa.Table:
    """Distinct rows whose id is right; tables that are not shared stay as they are."""
    if table not in NAMES_ONCE or not rows.num_rows:
        return rows
    return _functions(rows) if table == "function_names" else _stacks(rows)


def _functions(rows: pa.Table) -> pa.Table:
    distinct = rows.group_by(["function", "name", "module", "kernel"]).aggregate([("node_id", "min")])
    right = [
        it["name"] is not None
        and it["function"] == function_id(it["name"], it["module"] or "", kernel=bool(it["kernel"]))
        for it in distinct.to_pylist()
    ]
    kept = distinct.filter(pa.array(right, pa.bool_())).rename_columns(
        {"node_id_min": "node_id", **{it: it for it in distinct.column_names if it != "node_id_min"}}
    )
    return kept.select(rows.column_names).cast(rows.schema)


def _stacks(rows: pa.Table) -> pa.Table:
    lists = rows["functions"].combine_chunks()
    if isinstance(lists, pa.ChunkedArray):
        lists = pa.concat_arrays(lists.chunks) if lists.num_chunks else pa.array([], lists.type)
    flat = lists.flatten().to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    lengths = np.nan_to_num(lists.value_lengths().to_numpy(zero_copy_only=False)).astype(np.int64)
    ends = np.cumsum(lengths)
    starts = ends - lengths
    ids = rows["stack"].to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    fits = (lengths > 0) & (lengths <= DEEPEST)
    first = np.unique(_sums(ids, flat, starts, lengths), return_index=True)[1]
    right = [it for it in first.tolist() if fits[it] and stack_id(flat[starts[it] : ends[it]].tobytes()) == ids[it]]
    return rows.take(pa.array(right, pa.int64()))


def _sums(
    ids: npt.NDArray[np.int64],
    flat: npt.NDArray[np.int64],
    starts: npt.NDArray[np.int64],
    lengths: npt.NDArray[np.int64],
) -> npt.NDArray[np.uint64]:
    """One number for the id and the functions of each row: sorting these takes a fifth of sorting pairs."""
    drawn = np.frombuffer(os.urandom((DEEPEST + 1) * 8), np.uint64) | np.uint64(1)
    own: npt.NDArray[np.uint64] = ids.view(np.uint64) * drawn[DEEPEST]
    if not len(flat):
        return own
    depth = np.arange(len(flat)) - np.repeat(starts, lengths)
    products = flat.view(np.uint64) * drawn[depth % DEEPEST]
    added = np.append(np.uint64(0), np.cumsum(products ^ (products >> np.uint64(29))))
    sums: npt.NDArray[np.uint64] = added[starts + lengths] - added[starts]
    return sums ^ (own >> np.uint64(31)) ^ own
