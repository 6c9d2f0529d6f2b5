"""The readings of one thing, many at once: for sources that are read often and hold much."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True, slots=True, eq=False)
class Column:
    """As many readings of the same thing, in order of time; of equal ones that follow each other only the first."""

    what: str
    subject: str
    source: str
    at: npt.NDArray[np.float64]
    values: npt.NDArray[np.float64]
