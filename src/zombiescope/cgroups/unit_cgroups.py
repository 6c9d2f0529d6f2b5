"""A unit's own cgroups: which families they are, and how many of them the kernel still holds after their removal."""

from __future__ import annotations

from typing import NamedTuple

from zombiescope.cgroups.families import belongs_to, family
from zombiescope.core import Reading
from zombiescope.core.timeline import Timeline

MOST_FREED = 0.5  # of those removed: if more are still held, that is not the usual delay before the kernel frees them


class LeftBehind(NamedTuple):
    """How many of a unit's cgroups were removed and are still held, by the kernel's event for each."""

    removed: float
    held: float
    evidence: tuple[Reading, ...]

    @property
    def stay(self) -> bool:
        return self.removed > 0 and self.held >= MOST_FREED * self.removed


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


def left_behind(unit: str, timeline: Timeline) -> LeftBehind:
    removals, releases = (_counted(unit, f"cgroup_{what}_total", timeline) for what in ("removals", "releases"))
    removed = sum(it.value for it in removals)
    return LeftBehind(removed, removed - sum(it.value for it in releases), (*removals, *releases))


def freed(timeline: Timeline, subject: str) -> list[Reading]:
    """How many of a family were released after they were removed; empty where nobody saw any."""
    what = "cgroup_releases_total"
    return [timeline.counted(what, subject)] if len(timeline.series(what, subject)) else []


def _counted(unit: str, what: str, timeline: Timeline) -> list[Reading]:
    families = (it for it in timeline.subjects(what, "family") if is_of(unit, it, timeline))
    return [timeline.counted(what, family) for family in families]
