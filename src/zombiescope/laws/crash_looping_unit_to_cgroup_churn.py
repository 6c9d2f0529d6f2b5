"""systemd makes a cgroup for each run of a service and removes it after, so a restart loop is churn of that cgroup."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.unit_cgroups import is_of
from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 60.0  # seconds: the cgroup is removed with the last process of a run


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    if is_of(cause.subject, effect.subject, timeline):
        group = timeline.series("unit_cgroup", cause.subject)
        yield Ground(
            kind="place",
            says=f"{effect.subject.removeprefix('family:')} is the unit's own cgroup",
            evidence=(*([group.latest] if len(group) else []), effect.evidence[0]),
        )
