"""The rows of a CSV that somebody wrote for us: a regular file of a bounded size, whatever its name leads to."""

from __future__ import annotations

import csv
import os
import stat
from collections.abc import Iterator
from typing import Any

from zombiescope.core import UserError, harmless


def csv_rows(path: str, largest: int) -> Iterator[dict[str | Any, str | Any]]:
    """One row a line after the first, which names the columns; at most `largest` bytes."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(handle, newline="", encoding="utf-8", errors="replace") as file:
            there = os.fstat(file.fileno())
            if not stat.S_ISREG(there.st_mode) or there.st_size > largest:
                raise UserError(f"{path}: not a regular file of at most {largest >> 20} MB")
            yield from csv.DictReader(file)
    except (OSError, csv.Error) as error:
        raise UserError(f"{path}: {harmless(str(getattr(error, 'strerror', None) or error).lower())}") from error
