"""Rules are tried on the core that takes the packet in, so enough of them fill that core."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.core_work import fills_core

WITHIN = 1.0  # seconds: the core is busy while it goes on
LEAST = 0.33  # of what that core did in that time: with less, others fill it


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    yield from fills_core(
        effect, timeline, "rule_walk", least=LEAST, words="firewall rules are", called="rule_sampled_seconds"
    )
