"""What a line of the kernel's log means: one kind and one spelling of the fields, whichever driver wrote it.

The formats are data, in kernel_messages.toml. An ordinary line has no piece of any of them and costs about two
microseconds.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from types import MappingProxyType

from zombiescope.knowledge.line_format import LineFormat
from zombiescope.knowledge.shapes import shaped
from zombiescope.knowledge.tables import entries

LONGEST = 2_000  # characters of a line that are read: printk ends lines at about 1,000
_UNITS = {"_us": 1e-6, "_ms": 1e-3}
# Where the kernel quotes at length what others chose: the paths of cgroups (mm/oom_kill.c, mm/memcontrol.c,
# kernel/cgroup/pids.c), mount options (fs/fs_parser.c, fs/fs_context.c, fs/overlayfs), a program's name (fs/exec.c).
# Whatever seems to begin after that is theirs. A process's name has 15 bytes, which hold no message.
_QUOTES = re.compile(
    r"oom-kill:constraint=|Memory cgroup stats for /|Task in /|rejected by pids controller in /|process '|"
    r"(?:Unknown parameter|Unknown subsys name|Bad value for) '|overlayfs: [\w -]{0,60}['\"]"
)


@dataclass(frozen=True, slots=True)
class Message:
    """What a line says: its kind, and its fields as in the text, except times, which are in seconds."""

    kind: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class _Format(LineFormat):
    kind: str
    driver: str = ""
    known: str = ""  # where it was seen: for who reads the table


SHAPES = {"kernel_message": partial(shaped, _Format)}


@cache
def _formats() -> tuple[tuple[str, tuple[_Format, ...]], ...]:
    """The formats by the piece that their lines have."""
    found: dict[str, list[_Format]] = {}
    for one in entries("kernel_message", SHAPES["kernel_message"]):
        found.setdefault(one.holds, []).append(one)
    return tuple((piece, tuple(formats)) for piece, formats in found.items())


def recognise(text: str) -> Message | None:
    """What one line means, or None for most lines. Text before the message names the driver and the card."""
    text = text[:LONGEST]
    for piece, formats in _formats():
        if piece in text:
            for one in formats:
                found = one.expression.search(text)
                if found is not None and not _is_quoted(text, found.start()):
                    return Message(one.kind, MappingProxyType(_fields(one, found)))
    return None


def _is_quoted(text: str, begin: int) -> bool:
    quote = _QUOTES.search(text)
    return quote is not None and quote.start() < begin


def _fields(one: _Format, found: re.Match[str]) -> dict[str, str]:
    fields = _whose(found.string[: found.start()], one.driver) if one.kind.startswith("nic_") else {}
    for name, value in found.groupdict().items():
        if value is None:
            continue
        unit = _UNITS.get(name[-3:])
        if unit is None or not value.isascii() or not value.isdecimal():
            fields[name] = value
        else:
            # A number longer than any counter is not a real time.
            fields[name[:-3] + "_seconds"] = f"{int(value[:20]) * unit:.6f}".rstrip("0").rstrip(".")
    return fields


# [1371895.517318] ena 0000:00:05.0 ens5:     a message about an interface
# kernel: [108533.5] ena 0000:00:05.0:        about a device, whose interface has no name yet or is not at hand
# zslab9 (unregistering):                     about an interface that has no device
def _whose(before: str, driver: str) -> dict[str, str]:
    """Driver, device and interface, from the text before the message."""
    fields = {"driver": driver} if driver else {}
    head = before.rpartition("] ")[2].rpartition("kernel: ")[2].rstrip()
    if not head.endswith(":"):
        return fields
    words = [word for word in head[:-1].split() if not word.startswith("(")]
    match words[-3:]:
        case [its_driver, device, nic]:
            fields |= {"driver": its_driver, "device": device, "nic": nic}
        case [its_driver, device]:
            fields |= {"driver": its_driver, "device": device}
        case [nic] if nic != driver:
            fields |= {"nic": nic}
    return fields
