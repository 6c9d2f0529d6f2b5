"""How many cgroups are dying, by hierarchy, from the readings of several sources; what they hold and how they grow.

v1: what the kernel keeps (/proc/cgroups) minus the folders that exist. v2: the kernel's own counters in cgroup.stat, by
controller where it has them, else of the hierarchy. Where one source is missing there is no count, not a zero.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from zombiescope.core.model import SLACK, Reading
from zombiescope.core.timeline import Series, Timeline

SLAB_EACH = 12_500  # bytes of slab that a dying memory cgroup holds, measured on Linux 6.18
PERCPU_EACH = 2_000  # bytes for each possible core: 1.8 to 2.9 KB on Linux 5.4 to 6.18


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """The cgroups of one hierarchy, or of one controller of v2."""

    controllers: tuple[str, ...]
    known: float  # all that the kernel keeps, the root and the dying included
    live: float
    dying: Series
    evidence: tuple[Reading, ...]

    @property
    def subject(self) -> str:
        return f"controller:{','.join(self.controllers)}"

    @property
    def dead(self) -> float:
        return float(self.dying.values[-1])

    @property
    def grown(self) -> float:
        """How many more at the end of the recording than at its start."""
        return float(self.dying.values[-1] - self.dying.values[0])

    @property
    def growth_per_hour(self) -> float:
        """Over the recording; 0 if it has only one sample."""
        seconds = self.dying.at[-1] - self.dying.at[0]
        return self.grown / float(seconds) * 3600 if seconds > 0 else 0.0


def count(timeline: Timeline) -> list[Census]:
    """One census for each hierarchy that could be counted; memory first, then by name."""
    counted = [*_by_hierarchy(timeline), *_by_controller(timeline)]
    return sorted(counted, key=lambda census: ("memory" not in census.controllers, census.controllers))


def uncounted(timeline: Timeline) -> list[str]:
    """Controllers that have cgroups of which the dying could not be counted."""
    named = {subject.removeprefix("controller:") for subject in _bound(timeline)}
    return sorted(named - {name for census in count(timeline) for name in census.controllers})


def bytes_each(timeline: Timeline) -> float:
    """What one dying memory cgroup holds in kernel memory on this node, its pages not counted."""
    cores = timeline.series("cpus_possible")
    return SLAB_EACH + PERCPU_EACH * (cores.latest.value if len(cores) else 1)


def bytes_held(timeline: Timeline, dead: float) -> float:
    """An estimate that can never exceed what the node has in slab and per-CPU memory together."""
    kept = [timeline.series(what) for what in ("memory_slab_bytes", "memory_percpu_bytes")]
    ceiling = sum(series.latest.value for series in kept if len(series))
    return min(dead * bytes_each(timeline), ceiling) if ceiling else dead * bytes_each(timeline)


def _bound(timeline: Timeline) -> list[str]:
    """Controllers that are bound to a hierarchy. Hierarchy 0 is v2, or none: then they have no cgroups to count."""
    unified = {*timeline.subjects("cgroup_v2_controllers", "controller"), *timeline.subjects("cgroup_dying_subsys")}
    unlisted = not unified and bool(len(timeline.series("cgroup_version", "hierarchy:v2")))
    return [it.subject for it in timeline.latest("cgroup_hierarchy") if it.value or unlisted or it.subject in unified]


def _by_hierarchy(timeline: Timeline) -> Iterator[Census]:
    """v1, and v2 where cgroup.stat does not count by controller: one count for all that share a hierarchy."""
    groups: dict[int, list[str]] = {}
    for subject in _bound(timeline):
        groups.setdefault(int(timeline.series("cgroup_hierarchy", subject).latest.value), []).append(subject)
    unified = timeline.series("cgroup_dying_descendants", "hierarchy:v2")
    for hierarchy, subjects in groups.items():
        known, folders = timeline.series("cgroups_known", subjects[0]), timeline.series("cgroup_folders", subjects[0])
        controllers = tuple(subject.removeprefix("controller:") for subject in subjects)
        if hierarchy and len(folders):
            # The two sources are read one after the other, so one of them is always a moment early.
            nearest = np.clip(known.at, folders.at[0], folders.until)
            dead = known.values - folders.sampled(nearest)
            both = np.abs(nearest - known.at) <= SLACK
            if not both.any():
                continue
            # A cgroup made or removed between the two reads can make one sample short by a few; none is below 0.
            dying = replace(known, what="cgroups_dying", at=known.at[both], values=np.maximum(dead[both], 0), texts={})
            yield Census(
                controllers=controllers,
                known=known.latest.value,
                live=folders.latest.value,
                dying=dying,
                evidence=(known.latest, folders.latest),
            )
        elif not hierarchy and len(unified) and not timeline.subjects("cgroup_dying_subsys"):
            descendants = timeline.series("cgroup_descendants", "hierarchy:v2").latest
            yield Census(
                controllers=controllers,
                known=descendants.value + 1 + unified.latest.value,
                live=descendants.value + 1,
                dying=unified,
                evidence=(unified.latest, descendants),
            )


def _by_controller(timeline: Timeline) -> Iterator[Census]:
    for subject in timeline.subjects("cgroup_dying_subsys", "controller"):
        dying, live = timeline.series("cgroup_dying_subsys", subject), timeline.series("cgroup_subsys", subject)
        if len(live):
            yield Census(
                controllers=(subject.removeprefix("controller:"),),
                known=live.latest.value + dying.latest.value,
                live=live.latest.value,
                dying=dying,
                evidence=(dying.latest, live.latest),
            )
