"""The lines of Ray's logs that report a death, of a whole recording, and the Ray nodes that this machine is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from zombiescope.core.model import Reading
from zombiescope.core.timeline import Timeline
from zombiescope.knowledge.ray_messages import Death, recognise


class Line(NamedTuple):
    """A line of a recording that reports a death."""

    reading: Reading
    death: Death

    @property
    def node(self) -> str:
        """The Ray node that it happened on, if the line or its subject names one."""
        kind, _, name = self.reading.subject.partition(":")
        return self.death.fields.get("node", name if kind == "raynode" else "")


@dataclass(frozen=True, slots=True, kw_only=True)
class RayNode:
    """A raylet that ran on this machine during the recording."""

    id: str
    address: str
    cgroup: str
    reading: Reading


def lines_of(timeline: Timeline) -> list[Line]:
    """The lines that report a death, in the order of their times."""
    return timeline.once(_all)


def ray_nodes(timeline: Timeline) -> dict[str, RayNode]:
    """The Ray nodes that this machine is, by their ids."""
    found = {}
    for reading in timeline.latest("ray_node"):
        address, _, cgroup = reading.text.partition(" ")
        name = reading.subject.removeprefix("raynode:")
        found[name] = RayNode(id=name, address=address, cgroup=cgroup, reading=reading)
    return found


def nodes_here(timeline: Timeline) -> frozenset[str]:
    """The ids of the Ray nodes that this machine is, or was: a raylet logs only about itself."""
    own = (one.node for one in lines_of(timeline) if one.reading.source.endswith("/event_RAYLET.log"))
    return frozenset([*ray_nodes(timeline), *filter(None, own)])


def _all(timeline: Timeline) -> list[Line]:
    found = []
    for subject in timeline.subjects("ray_event"):
        series = timeline.series("ray_event", subject)
        for place in sorted(series.texts):
            death = recognise(series.texts[place])
            if death is not None:
                found.append(Line(series.reading(place), death))
    return sorted(found, key=lambda one: one.reading.at)
