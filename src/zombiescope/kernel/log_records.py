r"""Logs whose entries are records of fields: what journalctl -o json, export and verbose print, and Docker's own files.

{"__REALTIME_TIMESTAMP": "1762960324123456", "SYSLOG_IDENTIFIER": "kernel", "PRIORITY": "6", "MESSAGE": "text", …}
data: {…}                                      json-sse; json-seq begins each with \x1e, json-pretty has many lines
__REALTIME_TIMESTAMP=1762960324123456          export: a field a line, an empty line behind each entry
Thu 2026-11-12 15:12:04.123456 UTC [s=…;…]     verbose: a line with the time, then indented fields
{"log": "[12345.6] text\n", "stream": "stdout", "time": "2026-11-12T15:12:04.123456789Z"}
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import datetime
from typing import Any, NamedTuple

_TIME, _SOURCE_TIME, _MESSAGE = "__REALTIME_TIMESTAMP", "_SOURCE_REALTIME_TIMESTAMP", "MESSAGE"
_WRITERS = ("SYSLOG_IDENTIFIER", "_COMM")
_PIDS = ("SYSLOG_PID", "_PID")
_FIELD = re.compile(r"(?:    )?([A-Z0-9_]{1,64})=(.*)", re.DOTALL | re.ASCII)
_VERBOSE = re.compile(r"\w{3} \d{4}-\d\d-\d\d [\d:.]{8,20} \S{1,8} \[(?:s|[a-z])=[^\]]{1,500}\]$", re.ASCII)
_LONGEST = 1 << 20  # characters of one entry
_LEVEL = 6


class Record(NamedTuple):
    """An entry. Without a writer the text is a line of a log of its own."""

    number: int  # of the line it begins in, from 1
    at: float  # unix seconds
    level: int
    who: str  # "kernel", "systemd"; empty where it does not say
    pid: str
    text: str


def records(every: list[str]) -> tuple[str, list[Record]] | None:
    """The name of the format and its entries; None if it is no such log. Entries without a time are left out."""
    first = next((line for line in every[:20] if line.strip()), "").lstrip("\x1e")
    if first.startswith(("{", "data: {")):
        entries = [made for number, entry in _objects(every) if (made := _made(number, entry)) is not None]
        docker = bool(entries) and not any(it.who for it in entries[:100])
        return ("container log" if docker else "journalctl -o json", entries) if entries else None
    if first.startswith(("__CURSOR=", f"{_TIME}=")) or _VERBOSE.match(first):
        name = "journalctl -o verbose" if _VERBOSE.match(first) else "journalctl -o export"
        entries = [made for number, entry in _fields(every) if (made := _made(number, entry)) is not None]
        return (name, entries) if entries else None
    return None


def _objects(every: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """JSON objects, one a line or over many lines. What is damaged costs the lines up to the next that begins one."""
    kept, began = list[str](), 0
    size = 0
    for number, raw in enumerate(every, 1):
        line = raw.lstrip("\x1e").removeprefix("data: ")
        if line.startswith("{"):
            kept, began, size = [], number, 0
        kept.append(line)
        size += len(line)
        if not line.rstrip().endswith("}") or size > _LONGEST:
            if size > _LONGEST:
                kept, size = [], 0
            continue
        try:
            found = json.loads("\n".join(kept))
        except (ValueError, RecursionError):
            continue
        kept, size = [], 0
        if isinstance(found, dict):
            yield began, found


def _fields(every: list[str]) -> Iterator[tuple[int, dict[str, Any]]]:
    """Entries of export and verbose. A field of any bytes in export has its length in eight of them: it is skipped."""
    entry, began = dict[str, Any](), 1
    for number, line in enumerate(every, 1):
        found = _FIELD.match(line)
        if found is not None:
            entry.setdefault(found[1], found[2])
        elif not line.strip() or _VERBOSE.match(line):
            if entry:
                yield began, entry
            entry, began = {}, number
            if line.strip():
                entry["verbose"] = line
    if entry:
        yield began, entry


def _made(number: int, entry: dict[str, Any]) -> Record | None:
    if isinstance(entry.get("log"), str) and "time" in entry:
        at = _iso(entry["time"])
        return None if at is None else Record(number, at, _LEVEL, "", "", entry["log"].rstrip("\n"))
    at = _microseconds(entry.get(_SOURCE_TIME)) or _microseconds(entry.get(_TIME)) or _verbose(entry.get("verbose"))
    text = _text(entry.get(_MESSAGE))
    if at is None or text is None:
        return None
    who = next((it for name in _WRITERS if (it := _text(entry.get(name)))), "")
    if not who and entry.get("_TRANSPORT") == "kernel":
        who = "kernel"
    pid = next((it for name in _PIDS if (it := _text(entry.get(name)))), "")
    level = _text(entry.get("PRIORITY")) or ""
    return Record(number, at, int(level) if level in tuple("01234567") else _LEVEL, who[:64], pid[:10], text)


def _text(told: object) -> str | None:
    """A field: text, a number, or bytes as a list of numbers; of a field that comes several times the first."""
    if isinstance(told, str):
        return told
    if isinstance(told, int):
        return str(told)[:20]
    if isinstance(told, list) and told:
        if all(isinstance(it, int) and 0 <= it < 256 for it in told):
            return bytes(told).decode("utf-8", "surrogateescape")
        return _text(told[0]) if isinstance(told[0], str) else None
    return None


def _microseconds(told: object) -> float | None:
    text = _text(told) or ""
    return int(text) / 1e6 if text.isascii() and text.isdecimal() and len(text) <= 17 else None


def _iso(told: object) -> float | None:
    text = str(told)
    try:
        # Python takes six digits of a second, Docker writes nine.
        at = datetime.fromisoformat(re.sub(r"(\.\d{6})\d{1,6}", r"\1", text[:64]).replace("Z", "+00:00"))
        return at.timestamp() if at.tzinfo else None
    except (ValueError, OverflowError):
        return None


def _verbose(told: object) -> float | None:
    """`Thu 2026-11-12 15:12:04.123456 UTC […]`; a zone that is not UTC is taken as this machine's."""
    parts = str(told or "").split(" ")
    if len(parts) < 4:
        return None
    zone = "+00:00" if parts[3] in ("UTC", "GMT") else ""
    try:
        return datetime.fromisoformat(f"{parts[1]}T{parts[2]}{zone}").timestamp()
    except (ValueError, OverflowError):
        return None
