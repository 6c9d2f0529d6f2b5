"""Where each of some values is in a column, by one sort for all of them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from zombiescope.naming.ranges import distinct

Ints = npt.NDArray[np.int64]


def places(column: npt.NDArray[np.int32], values: Iterable[int]) -> Iterator[tuple[int, Ints]]:
    """Each value that is in the column, and its places in order."""
    order = np.argsort(column, kind="stable")
    ordered = column[order]
    found = sorted({*values} & {*distinct(ordered).tolist()})
    begins = np.searchsorted(ordered, found, side="left").tolist()
    ends = np.searchsorted(ordered, found, side="right").tolist()
    for value, begin, end in zip(found, begins, ends, strict=True):
        yield value, order[begin:end]
