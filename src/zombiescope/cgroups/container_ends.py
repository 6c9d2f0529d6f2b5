"""How often a container ended: by its ends where each could be read, else by how much its count of restarts rose.

Each run has a cgroup of its own, so where ends leave them behind there are about as many more dying cgroups as ends.
"""

from __future__ import annotations

import numpy as np

from zombiescope.cgroups.census import count
from zombiescope.cgroups.doses import matches, rise_together
from zombiescope.core.model import Span
from zombiescope.core.timeline import Series, Timeline

COUNTER, EXITS = "container_restarts_total", "container_exit"


def containers(timeline: Timeline) -> list[str]:
    """All of which ends or restarts were read, each once."""
    return list({it: None for what in (COUNTER, EXITS) for it in timeline.subjects(what, "container")})


def ends(timeline: Timeline, subject: str, span: Span) -> int:
    """Within the span. An end that a recorder reported again after its own restart counts once."""
    exits = timeline.series(EXITS, subject)
    seen = len(np.unique(exits.at[(exits.at >= span.start) & (exits.at <= span.end)]))
    counter = timeline.series(COUNTER, subject).between(span)
    risen = np.diff(counter.values)
    return max(seen, int(risen[risen > 0].sum()))


def left_behind(timeline: Timeline, span: Span) -> tuple[int, Series] | None:
    """The ends of all containers, which may crash together, and the dying memory cgroups, if they match."""
    counted = (it.dying.between(span) for it in count(timeline) if "memory" in it.controllers)
    dying = next((it for it in counted if len(it) > 1), None)
    times = sum(ends(timeline, it, span) for it in containers(timeline))
    if dying is None or not times:
        return None
    exits = np.sort(np.concatenate([timeline.series(EXITS, it).at for it in containers(timeline)]))
    match = matches(times, float(dying.values[-1] - dying.values[0]))
    return (
        (times, dying) if match or rise_together(lambda at: np.searchsorted(exits, at).astype(float), dying) else None
    )
