r"""Logs that state their times in a roundabout way, written anew as dmesg prints them: `<6>[12345.678901] text`.

[Nov16 23:26] text               dmesg -H, -e: the minute in which something happened, …
[  +0.000123] text               … and how long after the line before
[<    0.000123>] text            dmesg --time-format delta
{"dmesg": [{"pri": 6, "time": 12345.678901, "msg": "text"}, …]}     dmesg -J
Panic#2 Part3                    pstore: the newest part is the first; it may come before older ones
====1762960324.123456-D          pstore of ramoops: when it was dumped
"""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from typing import NamedTuple

_SINCE = re.compile(
    r"(?P<level>(?:<\d{1,3}>|[a-z0-9]{2,9} *:[a-z]{3,7} *: ?)?)"
    r"\[(?:(?P<minute>[A-Z][a-z]{2} ?\d{1,2} \d\d:\d\d)|<? *\+?(?P<after>\d{1,9}\.\d{6})>?)\] ?(?P<text>.*)",
    re.ASCII | re.DOTALL,
)
_SIGNS = (" +", "[+", "[<")  # one of them is in a line that says how long after the one before
_PART = re.compile(r"(?:Oops|Panic|Emergency|Shutdown|Restart|Halt|Poweroff|Unknown)#(\d{1,9}) Part(\d{1,9})", re.ASCII)
_DUMPED = re.compile(r"====(\d{9,10}\.\d{1,9})-[CD]?", re.ASCII)
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_TRIED = 20  # lines by which a form is recognised


class Retold(NamedTuple):
    lines: list[str]
    ended: float | None = None  # when its last line was written, if it says so


def retold(every: list[str]) -> Retold | None:
    """The same log in dmesg's own form; None if it is none of these."""
    first = [line for line in every[:_TRIED] if line.strip()]
    if first and first[0].startswith("{") and '"dmesg"' in "".join(first[:2]):
        return _of_json("\n".join(every))
    if any(_DUMPED.fullmatch(line.strip()) or _PART.fullmatch(line.strip()) for line in first):
        return _of_pstore(every)
    matched = [line for line in first if _SINCE.fullmatch(line)]
    if 2 * len(matched) > len(first) and any(sign in line[:40] for line in matched for sign in _SIGNS):
        return _of_differences(every)
    return None


def _of_differences(every: list[str]) -> Retold:
    """dmesg -H shows the minute, in place of a difference, whenever another one begins: it is right to a minute."""
    told, at, first = list[str](), 0.0, None
    for line in every:
        found = _SINCE.fullmatch(line)
        if found is None:
            told.append(line)
            continue
        if found["minute"] and (minute := _minute(found["minute"])) is not None:
            first = minute if first is None else first
            at = max(at, minute - first)
        at += float(found["after"] or 0)
        told.append(f"{found['level']}[{at:12.6f}] {found['text']}")
    return Retold(told)


def _minute(text: str) -> float | None:
    """Seconds of some year that has a 29th of February; lines of two years are as far apart as their last ones."""
    try:
        month = _MONTHS.index(text[:3])
        day, clock = text[3:].split()
        at = datetime(2000, month + 1, int(day), int(clock[:2]), int(clock[3:]), tzinfo=UTC)
    except ValueError:
        return None
    return at.timestamp()


def _of_json(text: str) -> Retold | None:
    try:
        entries = json.loads(text)["dmesg"]
        return Retold([_entry(it) for it in entries if isinstance(it, dict)])
    except (ValueError, RecursionError, KeyError, TypeError):
        return None


def _entry(entry: dict[str, object]) -> str:
    at, priority = float(str(entry.get("time"))), entry.get("pri")
    level = f"<{priority}>" if isinstance(priority, int) and 0 <= priority < 1000 else ""
    return f"{level}[{min(max(at, 0.0), 1e11):12.6f}] " + str(entry.get("msg", "")).replace("\n", " ")


def _of_pstore(every: list[str]) -> Retold:
    """Of each dump the oldest part, which has the highest number, first; dumps stay in the order they are in."""
    parts: list[tuple[int, int, list[str]]] = [(0, 0, [])]
    order: dict[str, int] = {}
    ended = None
    for line in every:
        if found := _PART.fullmatch(line.strip()):
            parts.append((order.setdefault(found[1], len(order) + 1), -int(found[2]), []))
        elif found := _DUMPED.fullmatch(line.strip()):
            ended = float(found[1])
        else:
            parts[-1][2].append(line)
    return Retold([line for *_, its in sorted(parts, key=lambda it: it[:2]) for line in its], ended)
