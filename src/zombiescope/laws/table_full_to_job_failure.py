"""A container that cannot start another thread fails and is restarted."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.owners import owner, owners
from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 120.0  # seconds: container restarts are sampled once a minute


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    restarted = effect.evidence[0].text if effect.evidence[0].what == "container_restarts_total" else ""
    if not restarted or not cause.subject.startswith("cgroup:"):
        return
    its = owner(timeline, cause.subject)
    if its == restarted or its.startswith((f"{restarted},", f"{restarted} (")):
        says = f"threads were refused in {cause.subject.removeprefix('cgroup:')}"
        yield Ground(kind="place", says=says, evidence=(cause.evidence[0], *owners(timeline, cause.subject)))
