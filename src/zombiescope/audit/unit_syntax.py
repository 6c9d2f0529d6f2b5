"""The syntax of unit files: settings and time spans (systemd.syntax(7), systemd.time(7))."""

from __future__ import annotations

import re
from collections.abc import Iterator

# What ends a line for systemd: a line feed, a carriage return or a NUL; different ones in a row end it once
# (read_line_full in src/basic/fileio.c). Somebody who writes NUL for a line feed must not hide a setting from us.
_END = re.compile(r"\n(?:\r\0?|\0\r?)?|\r(?:\n\0?|\0\n?)?|\0(?:\n\r?|\r\n?)?")
_SPAN = re.compile(r"(\d+(?:\.\d+)?)\s*([a-zA-Zµ]*)\s*")
_UNITS_OF_TIME = {
    **dict.fromkeys(("us", "usec", "µs"), 1e-6),
    **dict.fromkeys(("ms", "msec"), 1e-3),
    **dict.fromkeys(("", "s", "sec", "second", "seconds"), 1.0),
    **dict.fromkeys(("m", "min", "minute", "minutes"), 60.0),
    **dict.fromkeys(("h", "hr", "hour", "hours"), 3600.0),
    **dict.fromkeys(("d", "day", "days"), 86400.0),
    **dict.fromkeys(("w", "week", "weeks"), 604800.0),
}
Settings = dict[tuple[str, str], list[str]]  # values in order, by section and key; an empty value clears those before


def parse(text: str, into: Settings | None = None) -> Settings:
    """As systemd reads it: a backslash continues a line, an empty value clears the values before it."""
    settings: Settings = {} if into is None else into
    section = ""
    for line in _joined(text):
        if line.startswith("[") and line.endswith("]"):
            section = line[1:-1]
        elif "=" in line:
            key, _, value = line.partition("=")
            values = settings.setdefault((section, key.strip()), [])
            if value.strip():
                values.append(value.strip())
            else:
                values.clear()
    return settings


def ended_lines(text: str) -> list[str]:
    """The lines of a file of systemd; a byte order mark at its start is skipped."""
    return _END.split(text.removeprefix("\ufeff"))


def seconds(text: str, default: float) -> float:
    """A time span as systemd writes it: 10, 500ms, 1min 30s, infinity."""
    text = text.strip()
    if text == "infinity":
        return float("inf")
    if not text or len(text) > 100 or _SPAN.sub("", text):
        return default
    parts = [(float(number), _UNITS_OF_TIME.get(unit)) for number, unit in _SPAN.findall(text)]
    return sum(number * unit for number, unit in parts if unit) if all(unit for _, unit in parts) else default


def _joined(text: str) -> Iterator[str]:
    whole = ""
    for line in ended_lines(text):
        bare = line.strip()
        if not whole and (not bare or bare.startswith(("#", ";"))):
            continue
        if bare.startswith(("#", ";")):  # a comment within a continued line is skipped
            continue
        if bare.endswith("\\"):
            whole += bare[:-1] + " "
            continue
        yield whole + bare
        whole = ""
    if whole.strip():
        yield whole.strip()
