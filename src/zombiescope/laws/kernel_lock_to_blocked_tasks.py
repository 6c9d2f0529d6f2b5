"""A task that asks for a lock that many spin for may sleep until its turn comes."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 10.0  # seconds: blocked tasks are sampled every five
_SLEEPS = ("rwsem_down_", "mutex_lock", "__mutex_lock", "rtnl_lock", "down_read", "down_write", "namespace_")  # wchan


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    waits = [it for it in effect.evidence if any(name in it.text for name in _SLEEPS)]
    if waits:
        says = f"{waits[0].subject.removeprefix('process:')} waits in {waits[0].text}"
        yield Ground(kind="mechanism", says=says, evidence=(waits[0], cause.evidence[0]))
