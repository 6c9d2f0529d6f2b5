"""The recognised lines of the kernel's log in a recording, in the order of their times."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from zombiescope.core.model import Blind, Reading
from zombiescope.core.timeline import Series, Timeline
from zombiescope.knowledge.kernel_messages import Message, recognise

LOG, LAB_RUN = "kernel_log", "lab_run"
INJECTED = "(injected by "  # the lab ends each line that it writes to the kernel's log with this, and its name
DUMP = 10.0  # seconds that a driver may take to write all its counters, a thousand lines on a slow console
_COUNTER = re.compile(r"(?P<name>[a-z][a-z0-9_]{0,40}): (?P<value>\d{1,20})", re.ASCII)
_WHOSE = ("driver", "device", "nic")


@dataclass(frozen=True, slots=True)
class Line:
    """A recognised line."""

    reading: Reading
    message: Message


def logged(lines: Sequence[Line], what: str) -> str:
    """The end of a sentence: how often the kernel logged it; empty if it did not."""
    return f"; the kernel logged {len(lines)} {what}" if lines else ""


def lines_of(timeline: Timeline, *kinds: str) -> list[Line]:
    """The lines of these kinds (of all, if none is named), in the order of their times."""
    every = timeline.once(_all)
    return [one for one in every if not kinds or one.message.kind in kinds]


def log_of(timeline: Timeline) -> Series:
    """The log as the kernel wrote it: lines that a lab injected count only in recordings of that lab's own run."""
    log = timeline.series(LOG)
    if len(timeline.series(LAB_RUN)):
        return log
    return replace(log, texts={place: text for place, text in log.texts.items() if INJECTED not in text})


def unheard(timeline: Timeline) -> Blind | None:
    """Why the log is incomplete: it could not be read, or lines came faster than they were read."""
    looks = timeline.looks(LOG)
    if not len(looks):
        return Blind(what=LOG, source="/dev/kmsg", why="nothing looked for kernel_log")
    missed = next((looks.reading(place) for place in sorted(looks.texts)), None)
    return Blind(what=LOG, source=missed.source, why=missed.text) if missed is not None else None


def _all(timeline: Timeline) -> list[Line]:
    return list(_understood(timeline))


def _understood(timeline: Timeline) -> Iterator[Line]:
    """Every recognised line. Lines that only make sense after another line are handled here."""
    log = log_of(timeline)
    reset: Line | None = None  # the last one of a driver that logs its counters after it
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
                yield Line(log.reading(place), Message("nic_counters", MappingProxyType(dump)))
                dump |= {name: reset.message.fields[name] for name in _WHOSE if name in reset.message.fields}
            dump[counter[0]] = counter[1]
            continue
        message = _put_right(message, lost)
        one = Line(log.reading(place), message)
        if message.kind == "nic_reset":
            reset, dump = one, {}
        lost = message if "lost" in message.fields else None
        yield one


def _counter(text: str, whose: Mapping[str, str]) -> tuple[str, str] | None:
    """A counter of the dump: logged by the driver that reset, a name and a number and nothing else."""
    head = " ".join(whose[name] for name in _WHOSE if name in whose) + ": "
    found = _COUNTER.fullmatch(text.removeprefix(head)) if text.startswith(head) else None
    return (found["name"], found["value"]) if found else None


def _put_right(message: Message, lost: Message | None) -> Message:
    """The second of ENA 2.17's two lines has queue and core swapped. A later driver may have them right: the first
    line, which names the queue, shows which."""
    fields = message.fields
    if lost is None or "queue" not in lost.fields or set(fields) - set(_WHOSE) != {"queue", "cpu"}:
        return message
    if fields["queue"] == lost.fields["queue"] or fields["cpu"] != lost.fields["queue"]:
        return message
    return Message(message.kind, MappingProxyType({**fields, "queue": fields["cpu"], "cpu": fields["queue"]}))
