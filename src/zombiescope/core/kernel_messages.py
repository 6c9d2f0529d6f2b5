"""What a line of the kernel's log means: one kind and one spelling of the fields, whichever driver wrote it.

The formats are data, in kernel_messages.toml beside this file. A line is first asked for a short piece that each format
must have; an ordinary line has none of them and costs some two microseconds. Only what has one meets its expression.
"""

from __future__ import annotations

import functools
import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib.resources import files
from types import MappingProxyType
from typing import TYPE_CHECKING

from zombiescope.core.model import Blind, Reading

if TYPE_CHECKING:
    from zombiescope.core.timeline import Timeline

LOG = "kernel_log"
LONGEST = 2_000  # characters of a line that are looked at: printk ends lines at about 1,000
DUMP = 10.0  # seconds that a driver may take to write all its counters, a thousand lines on a slow console
_UNITS = {"_us": 1e-6, "_ms": 1e-3}
_COUNTER = re.compile(r"(?P<name>[a-z][a-z0-9_]{0,40}): (?P<value>\d{1,20})", re.ASCII)


@dataclass(frozen=True, slots=True)
class Message:
    """What a line says: its kind, and its fields as the text has them but for times, which are in seconds."""

    kind: str
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Told:
    """A line of a recording that says something."""

    reading: Reading
    message: Message


@dataclass(frozen=True, slots=True)
class _Format:
    kind: str
    pattern: str
    driver: str

    @property
    def expression(self) -> re.Pattern[str]:
        return _compiled(self.pattern)


@functools.cache
def _compiled(pattern: str) -> re.Pattern[str]:
    """Not before a line needs it: all of them together take as long as the whole command's start."""
    return re.compile(pattern, re.ASCII)


@functools.cache
def _formats() -> tuple[tuple[str, tuple[_Format, ...]], ...]:
    """The formats by the piece that a line of theirs has."""
    told = tomllib.loads(files(__package__).joinpath("kernel_messages.toml").read_text("utf-8"))
    found: dict[str, list[_Format]] = {}
    for one in told["format"]:
        found.setdefault(one["holds"], []).append(_Format(one["kind"], one["pattern"], one.get("driver", "")))
    return tuple((piece, tuple(formats)) for piece, formats in found.items())


def recognise(text: str) -> Message | None:
    """What one line says, or None: most say nothing to us. Text before the message names the driver and the card."""
    text = text[:LONGEST]
    for piece, formats in _formats():
        if piece in text:
            for one in formats:
                found = one.expression.search(text)
                if found is not None:
                    return Message(one.kind, MappingProxyType(_fields(one, found)))
    return None


def told(timeline: Timeline, *kinds: str) -> list[Told]:
    """The lines of these kinds (of all, if none is named), in the order of their times."""
    every = timeline.once("kernel_messages", lambda it: list(_all(it)))
    return [one for one in every if not kinds or one.message.kind in kinds]


def unheard(timeline: Timeline) -> Blind | None:
    """Why the log does not tell everything: it could not be read, or lines came faster than they were taken."""
    looks = timeline.looks(LOG)
    if not len(looks):
        return Blind(what=LOG, source="/dev/kmsg", why="nobody looked at the kernel's log")
    missed = next((looks.reading(place) for place in sorted(looks.texts)), None)
    return Blind(what=LOG, source=missed.source, why=missed.text) if missed is not None else None


def _fields(one: _Format, found: re.Match[str]) -> dict[str, str]:
    fields = _whose(found.string[: found.start()], one.driver) if one.kind.startswith("nic_") else {}
    for name, value in found.groupdict().items():
        if value is None:
            continue
        unit = _UNITS.get(name[-3:])
        if unit is None:
            fields[name] = value
        else:
            # Longer than any counter is no time but somebody's joke.
            fields[name[:-3] + "_seconds"] = f"{int(value[:20]) * unit:.6f}".rstrip("0").rstrip(".")
    return fields


# [1371895.517318] ena 0000:00:05.0 ens5:     a message about an interface
# kernel: [108533.5] ena 0000:00:05.0:        about a device, whose interface has no name yet or is not at hand
# zslab9 (unregistering):                     about an interface that has no device
def _whose(before: str, driver: str) -> dict[str, str]:
    """Driver, device and interface, from what stands before the message."""
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


def _all(timeline: Timeline) -> Iterator[Told]:
    """Every line that says something. What only makes sense after another line is understood here."""
    log = timeline.series(LOG)
    reset: Told | None = None  # the last one of a driver that tells its counters after it
    dump: dict[str, str] = {}
    lost: Message | None = None
    for place in sorted(log.texts):
        message = recognise(log.texts[place])
        if message is None:
            if reset is None or float(log.at[place]) - reset.reading.at > DUMP:
                continue
            counter = _counter(log.texts[place], reset.message.fields)
            if counter is None:
                continue
            if not dump:
                yield Told(log.reading(place), Message("nic_counters", MappingProxyType(dump)))
                dump |= {name: reset.message.fields[name] for name in _WHOSE if name in reset.message.fields}
            dump[counter[0]] = counter[1]
            continue
        message = _put_right(message, lost)
        one = Told(log.reading(place), message)
        if message.kind == "nic_reset":
            reset, dump = one, {}
        lost = message if "lost" in message.fields else None
        yield one


_WHOSE = ("driver", "device", "nic")


def _counter(text: str, whose: Mapping[str, str]) -> tuple[str, str] | None:
    """A counter of the dump: written by whom the reset was, a name and a number and nothing else."""
    head = " ".join(whose[name] for name in _WHOSE if name in whose) + ": "
    found = _COUNTER.fullmatch(text.removeprefix(head)) if text.startswith(head) else None
    return (found["name"], found["value"]) if found else None


def _put_right(message: Message, lost: Message | None) -> Message:
    """The second of ENA 2.17's two lines has queue and core swapped; should a later driver have them right, the first
    line, which names the queue, tells."""
    fields = message.fields
    if lost is None or "queue" not in lost.fields or set(fields) - set(_WHOSE) != {"queue", "cpu"}:
        return message
    if fields["queue"] == lost.fields["queue"] or fields["cpu"] != lost.fields["queue"]:
        return message
    return Message(message.kind, MappingProxyType({**fields, "queue": fields["cpu"], "cpu": fields["queue"]}))
