"""A read of another process's memory map, or of a table of the kernel, holds its lock while the owners wait for it."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 10.0  # seconds: the walker comes round for as long as the lock is contended


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    held = next((it for it in effect.evidence if it.what == "lock_held_sampled_seconds"), None)
    if held is not None and held.subject == cause.subject:
        who = cause.subject.removeprefix("process:")
        says = f"seen in stacks: {who} worked for {held.value:.1f} s in what the lock is for while others spun for it"
        yield Ground(kind="mechanism", says=says, evidence=(held, cause.evidence[0]))
