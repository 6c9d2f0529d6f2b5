"""A format of log lines: the piece that each of its lines has, and the expression that reads one.

A line is first searched for the piece: an ordinary line has none. Only a line that has it is tried with the expression.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class LineFormat:
    """What every format has; each kind of log adds what its lines mean."""

    holds: str
    pattern: str

    def __post_init__(self) -> None:
        if not self.holds:
            raise ValueError("holds is not empty: every line of the log would meet the pattern")

    @property
    def expression(self) -> re.Pattern[str]:
        return _compiled(self.pattern)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Compiled only when a line needs it: all of them together take as long as the whole command's start."""
    return re.compile(pattern, re.ASCII)
