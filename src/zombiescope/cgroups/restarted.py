"""Containers that were restarted, and the cgroups that are theirs."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.owners import owner, owners
from zombiescope.core.model import Finding, Ground
from zombiescope.core.timeline import Timeline


def restarted_in(cause: Finding, effect: Finding, timeline: Timeline, words: str) -> Iterator[Ground]:
    """That the container which was restarted is the one whose cgroup the cause is about."""
    restarted = effect.evidence[0].text if effect.evidence[0].what == "container_restarts_total" else ""
    if not restarted or not cause.subject.startswith("cgroup:"):
        return
    its = owner(timeline, cause.subject)
    if its == restarted or its.startswith((f"{restarted},", f"{restarted} (")):
        says = f"{words} {cause.subject.removeprefix('cgroup:')}"
        yield Ground(kind="place", says=says, evidence=(cause.evidence[0], *owners(timeline, cause.subject)))
