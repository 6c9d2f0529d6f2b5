"""A container that cannot start another thread fails and is restarted."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.restarted import restarted_in
from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 120.0  # seconds: container restarts are sampled once a minute


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    yield from restarted_in(cause, effect, timeline, "threads were refused in")
