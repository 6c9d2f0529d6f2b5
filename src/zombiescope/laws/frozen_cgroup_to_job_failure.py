"""A container that is frozen answers no probe, so it is ended and started again."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.cgroups.restarted import restarted_in
from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 180.0  # seconds: three probes ten seconds apart, and restarts are sampled once a minute


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    yield from restarted_in(cause, effect, timeline, "nothing ran in")
