"""A node without free memory makes whoever asks for some free it first, so its tasks reclaim while memory is low."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 5.0  # seconds: /proc/meminfo is read every 5 s


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:  # noqa: ARG001
    if effect.subject == "node":  # reclaim inside a cgroup is for its own limit
        says = f"both on the whole node: {cause.says} while its tasks freed memory for themselves"
        yield Ground(kind="place", says=says, evidence=(cause.evidence[0], effect.evidence[0]))
