"""The rows of a CSV that somebody wrote for us: a regular file of a bounded size, whatever its name leads to."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from typing import Any

from zombiescope.core import UserError, harmless
from zombiescope.processes.opening import regular


def csv_rows(path: str, largest: int) -> Iterator[dict[str | Any, str | Any]]:
    """One row a line after the first, which names the columns; at most `largest` bytes."""
    try:
        with os.fdopen(regular(path), newline="", encoding="utf-8", errors="replace") as file:
            if os.fstat(file.fileno()).st_size > largest:
                raise UserError(f"{path}: larger than {largest >> 20} MB")
            yield from csv.DictReader(file)
    except (OSError, csv.Error) as error:
        raise UserError(f"{path}: {harmless(str(getattr(error, 'strerror', None) or error).lower())}") from error
