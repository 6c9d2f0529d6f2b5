"""Samples, column by column, as the rows of a segment."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from zombiescope.recorder.schemas import SCHEMAS


def sample_batches(
    chunks: Iterable[Mapping[str, Any]], ids: npt.NDArray[np.uint64], words: Iterable[str]
) -> Iterator[pa.RecordBatch]:
    """In `chunks` stacks and threads' names are numbers: places in `ids` and in `words`."""
    names = pa.array([it.encode("utf-8", "backslashreplace").decode() for it in words], pa.string())
    for chunk in chunks:
        columns: dict[str, Any] = {**chunk, "stack": ids[chunk["stack"]]}
        columns.setdefault("weight", pa.nulls(len(chunk["at"]), pa.int64()))
        columns["comm"] = pa.DictionaryArray.from_arrays(pa.array(columns["comm"], pa.int32()), names)
        arrays = [pa.array(columns[field.name], field.type) for field in SCHEMAS["samples"]]
        yield pa.record_batch(arrays, schema=SCHEMAS["samples"])
