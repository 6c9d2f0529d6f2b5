"""Which families of cgroups are a unit's own: its cgroup, and what is made below it."""

from __future__ import annotations

from zombiescope.cgroups.families import belongs_to, family
from zombiescope.core.timeline import Timeline


def is_of(unit: str, subject: str, timeline: Timeline) -> bool:
    """Whether a family ("family:/system.slice/ecs.service") belongs to a unit ("unit:ecs.service").

    By the cgroup that systemd reports for the unit; where systemd could not be asked, by the name in the path.
    """
    path = subject.removeprefix("family:")
    group = timeline.series("unit_cgroup", unit)
    if len(group):
        own = family(group.latest.text)
        return path == own or path.startswith(own + "/")
    return belongs_to(path) == f"unit:{family(unit.removeprefix('unit:'))}"


def families_of(unit: str, what: str, timeline: Timeline) -> list[str]:
    """The families of a unit among those that something was counted for."""
    return [it for it in timeline.subjects(what, "family") if is_of(unit, it, timeline)]
