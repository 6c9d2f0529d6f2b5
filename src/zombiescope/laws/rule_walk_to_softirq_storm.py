"""Rules are tried for each packet in the softirq that takes it, so many rules fill the core with softirqs."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.core_work import fills_core

WITHIN = 1.0  # seconds: packets are handled as they come
LEAST = 0.3  # of what that core did in that time: with less, the packets themselves fill it


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    words, called = "firewall rules are", "rule_sampled_seconds"
    yield from fills_core(effect, timeline, "rule_walk", least=LEAST, words=words, called=called)
