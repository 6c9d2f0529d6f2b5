"""A thread whose cgroup weighs little against its siblings gets little of a full node."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 5.0  # seconds: weights decide at every moment


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    own = [it for it in cause.evidence if it.subject == effect.subject]
    if own:
        says = f"it runs in {own[0].text}, which weighs less by far than {cause.subject.removeprefix('cgroup:')}"
        yield Ground(kind="mechanism", says=says, evidence=(own[0], cause.evidence[0]))
