"""How we write what the machine said: hostile text made harmless, numbers made readable."""

from __future__ import annotations

import unicodedata
from collections.abc import Sequence

from zombiescope.core.errors import Unparsable

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


def lines(text: str) -> list[str]:
    """The lines of a kernel file. Not `splitlines`, which also splits at form feeds and others that a name may hold."""
    return text.removesuffix("\n").split("\n") if text else []


def count(text: str, base: int = 10) -> int:
    """A number as the kernel counts, from 0 to what 64 bits hold; else a ValueError, for the parser to tell."""
    if not text.isascii() or not text.isalnum() or len(text) > 20:
        raise ValueError(text[:40])
    number = int(text, base)
    if number >= 1 << 64:
        raise ValueError(text)
    return number


def counts(fields: Sequence[str]) -> list[int]:
    """Many numbers at once, judged as `count` does: one by one would take four times as long."""
    digits = "".join(fields)
    if fields and (not digits.isascii() or not digits.isdecimal() or len(max(fields, key=len)) > 20):
        raise ValueError(digits[:40])
    numbers = list(map(int, fields))
    if max(numbers, default=0) >= 1 << 64:
        raise ValueError(digits[:40])
    return numbers


def counters(text: str, source: str) -> dict[str, int]:
    """Lines of a name and a number, as /proc/vmstat, cgroup.stat and cpu.stat have them."""
    words = text.split()
    if len(words) == 2 * text.count("\n") == 2 * text.count(" "):
        try:
            return dict(zip(words[::2], counts(words[1::2]), strict=True))
        except ValueError:
            pass  # which line it is, is found one by one
    found: dict[str, int] = {}
    for number, line in enumerate(lines(text), 1):
        key, _, value = line.partition(" ")
        try:
            found[key] = count(value)
        except ValueError:
            raise Unparsable(source, number, line) from None
    return found


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


# What opens an eye, by the words the machine refused us with.
_CURES = {
    "permission denied": "run as root, or with the capability that the file asks for",
    "operation not permitted": "run as root",
    "part of the hierarchy": "run on the host: nsenter -t 1 -C, or a pod with the host's cgroup namespace",
    "nobody looked for samples_total": "sample the stacks too: --hz 99",
    "two looks": "record for a few seconds, or give a recording with more than one look",
    "operation not supported": "boot with psi=1",
    "bus is away": "run where systemd's bus can be reached: on the host, or with its /run/dbus mounted",
    "no such file": "this kernel, or this recording, does not have it",
    "not understood": "please send us that line: it is a format we do not know",
    "broken": "this is our fault: please report it with ZOMBIESCOPE_DEBUG=1",
}


def cure_for_blindness(why: str) -> str:
    """What would let us see, if the reason is one we know."""
    return next((cure for words, cure in _CURES.items() if words in why), "")
