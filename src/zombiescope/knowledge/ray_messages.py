"""What a line of Ray's logs means: that something died, and of what. The formats are data, in ray_messages.toml."""

from __future__ import annotations

import calendar
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from typing import NamedTuple

from zombiescope.knowledge.line_format import LineFormat
from zombiescope.knowledge.shapes import shaped
from zombiescope.knowledge.tables import entries

LONGEST = 2_000  # characters of a line that are read; the longest message has 1,500 before its last field
# [2026-11-15 23:15:46,714 W 11650 11650] (gcs_server) …    and Python's    2026-11-15 23:18:16,182	INFO …
_STAMP = re.compile(r"\[?(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})[ \t]", re.ASCII)
_LEVEL = re.compile(r"\[\S+ \S+ ([A-Z]) ")
LEVELS = {"D": 7, "I": 6, "W": 4, "E": 3, "C": 2, "F": 2}  # as the kernel's log counts them


class Death(NamedTuple):
    """What a line reports: the cause of death, and the fields of the line. `dead` is false for a warning before it."""

    how: str
    dead: bool
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Format(LineFormat):
    how: str
    dead: bool = True


SHAPES = {"ray_message": partial(shaped, _Format)}


@cache
def _formats() -> tuple[_Format, ...]:
    return entries("ray_message", SHAPES["ray_message"])


def recognise(text: str) -> Death | None:
    """What one line reports, or None for nearly all lines."""
    text = text[:LONGEST]
    for one in _formats():
        if one.holds in text and (found := one.expression.search(text)) is not None:
            return Death(one.how, one.dead, {name: value for name, value in found.groupdict().items() if value})
    return None


def stamp(line: str) -> float | None:
    """When a line was written. It does not name its time zone: taken as UTC."""
    found = _STAMP.match(line)
    if found is None:
        return None
    try:
        return calendar.timegm(time.strptime(found[1], "%Y-%m-%d %H:%M:%S")) + int(found[2]) / 1000
    except ValueError:
        return None


def level(line: str) -> int:
    """How severe a line is, as the kernel counts: 2 fatal, 3 error, 4 warning, 6 information."""
    found = _LEVEL.match(line)
    return LEVELS.get(found[1], 6) if found else 3
