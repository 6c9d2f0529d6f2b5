"""Softirqs of one core run one after the other, so a long one keeps the others waiting."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 1.0  # seconds: the others wait while it runs


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    if cause.subject == effect.subject:
        says = f"both are of {cause.subject.replace(':', ' ')}"
        yield Ground(kind="place", says=says, evidence=(cause.evidence[0], effect.evidence[0]))
