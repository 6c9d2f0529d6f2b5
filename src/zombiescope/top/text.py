"""Pieces of a screen: text with a style, cut to columns of a terminal, bars and curves."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Sequence

from zombiescope.top.frame import Core

Piece = tuple[str, str]  # text, style
Line = list[Piece]
STYLES = ("", "bold", "dim", "bad", "warn", "good", "user", "system", "soft", "steal", "chosen", "title")
_LETTERS = {"system": "s", "softirq": "q", "irq": "i", "user": "u", "steal": "t"}
_STYLE = {"system": "system", "softirq": "soft", "irq": "soft", "user": "user", "steal": "steal"}
_LEVELS = " ▁▂▃▄▅▆▇█"
_LEVELS_ASCII = " .:-=+*#@"


def columns(text: str) -> int:
    """How many columns of a terminal a text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if unicodedata.combining(it) else 2 if unicodedata.east_asian_width(it) in "WF" else 1 for it in text)


def cut(text: str, width: int) -> str:
    """At most so many columns; what is cut off shows as a dot."""
    if columns(text) <= width:
        return text
    kept, used = [], 0
    for char in text:
        used += columns(char)
        if used > width - 1:
            break
        kept.append(char)
    return "".join(kept) + ("…" if width > 0 else "")


def fitted(line: Line, width: int) -> Line:
    """At most so many columns."""
    found: Line = []
    left = width
    for text, style in line:
        if left <= 0:
            break
        shown = cut(text, left)
        found.append((shown, style))
        left -= columns(shown)
    return found


def plain(line: Iterable[Piece]) -> str:
    return "".join(text for text, _ in line).rstrip()


def bar(core: Core, width: int) -> Line:
    """What a core did, by mode: s system, q softirq, i interrupts, u user, t steal; also readable without colour."""
    line: Line = []
    used, total = 0, 0.0
    for mode, letter in _LETTERS.items():
        total += getattr(core, mode)
        many = max(min(round(total * width), width) - used, 0)
        if many:
            line.append((letter * many, _STYLE[mode]))
            used += many
    return [*line, (" " * (width - used), "")]


def curve(values: Sequence[float], width: int, *, ascii_only: bool = False) -> str:
    """Shares from 0 to 1, the last ones that fit."""
    levels = _LEVELS_ASCII if ascii_only else _LEVELS
    return "".join(levels[round(min(max(it, 0.0), 1.0) * (len(levels) - 1))] for it in values[-width:])


def beside(left: Line, right: Line, width: int) -> Line:
    """Two texts at both ends of a line; the left one gives way."""
    room = width - sum(columns(text) for text, _ in right)
    kept = fitted(left, max(room - 1, 0))
    gap = room - sum(columns(text) for text, _ in kept)
    return [*kept, (" " * max(gap, 0), ""), *right]
