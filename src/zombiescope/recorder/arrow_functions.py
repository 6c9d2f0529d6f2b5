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
