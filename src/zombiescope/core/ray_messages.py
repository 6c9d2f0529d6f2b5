"""What a line of Ray's logs means: that something died, and of what. The formats are data, in ray_messages.toml."""

from __future__ import annotations

import calendar
import functools
import re
import time
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.resources import files
from typing import TYPE_CHECKING

from zombiescope.core.model import Reading

if TYPE_CHECKING:
    from zombiescope.core.timeline import Timeline

LONGEST = 2_000  # characters of a line that are looked at; the longest message has 1,500 before its last field
# [2026-11-15 23:15:46,714 W 11650 11650] (gcs_server) …    and Python's    2026-11-15 23:18:16,182	INFO …
_STAMP = re.compile(r"\[?(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d),(\d{3})[ \t]", re.ASCII)
_LEVEL = re.compile(r"\[\S+ \S+ ([A-Z]) ")
LEVELS = {"D": 7, "I": 6, "W": 4, "E": 3, "C": 2, "F": 2}  # as the kernel's log counts them


@dataclass(frozen=True, slots=True)
class Death:
    """What a line tells: of what it died, and the fields of the line. `dead` is false for a warning before it."""

    how: str
    dead: bool
    fields: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class _Format:
    how: str
    dead: bool
    holds: str
    expression: re.Pattern[str]


@functools.cache
def _formats() -> tuple[_Format, ...]:
    told = tomllib.loads(files(__package__).joinpath("ray_messages.toml").read_text("utf-8"))
    return tuple(
        _Format(one["how"], one.get("dead", True), one["holds"], re.compile(one["pattern"], re.ASCII))
        for one in told["message"]
    )


def recognise(text: str) -> Death | None:
    """What one line tells, or None: nearly all tell of nothing."""
    text = text[:LONGEST]
    for one in _formats():
        if one.holds in text and (found := one.expression.search(text)) is not None:
            return Death(one.how, one.dead, {name: value for name, value in found.groupdict().items() if value})
    return None


def stamp(line: str) -> float | None:
    """When a line was written, by a clock whose zone it does not tell: taken as UTC."""
    found = _STAMP.match(line)
    if found is None:
        return None
    try:
        return calendar.timegm(time.strptime(found[1], "%Y-%m-%d %H:%M:%S")) + int(found[2]) / 1000
    except ValueError:
        return None


def level(line: str) -> int:
    """How grave a line is, as the kernel counts: 2 fatal, 3 error, 4 warning, 6 information."""
    found = _LEVEL.match(line)
    return LEVELS.get(found[1], 6) if found else 3


@dataclass(frozen=True, slots=True)
class Told:
    """A line of a recording that tells of a death."""

    reading: Reading
    death: Death

    @property
    def node(self) -> str:
        """The Ray node that it happened on, if the line or its subject names one."""
        kind, _, name = self.reading.subject.partition(":")
        return self.death.fields.get("node", name if kind == "raynode" else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """A raylet that ran on this machine while it was looked at."""

    id: str
    address: str
    cgroup: str
    reading: Reading


def told(timeline: Timeline) -> list[Told]:
    """The lines that tell of a death, in the order of their times."""
    return timeline.once("ray_messages", _told)


def ray_nodes(timeline: Timeline) -> dict[str, RayNode]:
    """The Ray nodes that this machine is, by their ids."""
    found = {}
    for reading in timeline.latest("ray_node"):
        address, _, cgroup = reading.text.partition(" ")
        name = reading.subject.removeprefix("raynode:")
        found[name] = RayNode(id=name, address=address, cgroup=cgroup, reading=reading)
    return found


def nodes_here(timeline: Timeline) -> frozenset[str]:
    """The ids of the Ray nodes that this machine is, or was: a raylet tells only of itself."""
    own = (one.node for one in told(timeline) if one.reading.source.endswith("/event_RAYLET.log"))
    return frozenset([*ray_nodes(timeline), *filter(None, own)])


def _told(timeline: Timeline) -> list[Told]:
    found = []
    for subject in timeline.subjects("ray_event"):
        series = timeline.series("ray_event", subject)
        for place in sorted(series.texts):
            death = recognise(series.texts[place])
            if death is not None:
                found.append(Told(series.reading(place), death))
    return sorted(found, key=lambda one: one.reading.at)
