"""Functions of Arrow, called by name.

pyarrow.compute writes a Python function for each of 300 of them when it is imported, 70 ms and 10 MB; the module that
does the work is imported in 8 ms. Methods of tables and arrays that need them import all of it, so they are not used.
"""

from __future__ import annotations

from typing import Any

import numpy.typing as npt
import pyarrow as pa

try:
    from pyarrow import _compute as compute
except ImportError:  # it is pyarrow's own affair where they are
    from pyarrow import compute


def chosen(table: pa.Table, rows: npt.NDArray[Any]) -> pa.Table:
    """The rows that are true."""
    return compute.call_function("filter", [table, pa.array(rows)], compute.FilterOptions())


def taken(table: pa.Table, rows: npt.NDArray[Any]) -> pa.Table:
    """The rows of these numbers."""
    return compute.call_function("take", [table, pa.array(rows)], compute.TakeOptions())


def filled(column: Any, value: int) -> Any:
    """With a value in place of each null."""
    return compute.call_function("coalesce", [column, pa.scalar(value, column.type)])


def encoded(words: pa.Array) -> pa.DictionaryArray:
    """Each word once, and numbers of words."""
    return compute.call_function("dictionary_encode", [words], compute.DictionaryEncodeOptions("mask"))


def sound(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same, with the number of a word under each null. What is there in a stranger's file is anything, no check
    looks at it, and Arrow looks it up all the same when it joins dictionaries: beyond their ends."""
    columns = list(batch.columns)
    for place, column in enumerate(columns):
        if pa.types.is_dictionary(column.type) and column.null_count:
            missing = compute.call_function("is_null", [column], compute.NullOptions()).to_numpy(zero_copy_only=False)
            codes = pa.array(
                filled(column.indices, 0).to_numpy(zero_copy_only=False), column.indices.type, mask=missing
            )
            columns[place] = pa.DictionaryArray.from_arrays(codes, column.dictionary)
    return pa.RecordBatch.from_arrays(columns, schema=batch.schema)
