"""How we write what the machine said: hostile text made harmless, numbers made readable."""

from __future__ import annotations

import unicodedata

_UNITS = ("B", "KB", "MB", "GB", "TB", "PB")


def harmless(text: str, *, most: int = 400) -> str:
    r"""Text from outside, safe to show on a terminal: no escape sequence, newline or odd byte survives as itself.

    A cgroup, a process or a log line may carry any byte. ``\x1b[31m`` is shown as those eight characters, a byte
    that is not UTF-8 (kept by Python as a lone surrogate) as ``\xff``, and what is longer than `most` is cut.
    """
    if text.isascii() and text.isprintable() and len(text) <= most:
        return text
    shown = "".join(map(_shown, text[: most + 1]))
    return shown if len(text) <= most else shown[:most] + "…"


def _shown(char: str) -> str:
    code = ord(char)
    if 0xDC80 <= code <= 0xDCFF:  # surrogateescape: the byte itself is the low eight bits
        return f"\\x{code & 0xFF:02x}"
    # Format characters (Cf) include the bidirectional overrides that make text read backwards.
    if char == " " or not unicodedata.category(char).startswith(("C", "Z")):
        return char
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def amount(size: float) -> str:
    """A number of bytes as people say it: 25.3 MB."""
    for unit in _UNITS:
        if abs(size) < 999.5 or unit == _UNITS[-1]:  # what would be written as 1000 is one of the next unit
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    raise AssertionError("the last unit takes all")


def lasting(seconds: float) -> str:
    """A stretch of time as people say it: 3.5 s, 12 min, 5.2 h, 3.1 days."""
    if seconds < 120:
        return f"{seconds:.1f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 48 * 3600:
        return f"{seconds / 3600:.1f} h"
    return f"{seconds / 86400:,.1f} days"


def percent(share: float, digits: int = 0) -> str:
    """A share as people write it: 0.97 is 97 %."""
    return f"{share * 100:.{digits}f} %"
