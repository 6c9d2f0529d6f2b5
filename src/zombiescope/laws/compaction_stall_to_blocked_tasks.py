"""A task that compacts memory, or waits for pages that are being moved, does not go on until that is done."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline

WITHIN = 10.0  # seconds: blocked tasks are sampled every five
_WAITS = ("compact", "isolate_migratepages", "migrate_pages", "migration_entry_wait", "too_many_isolated")  # wchan


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    waits = [it for it in effect.evidence if any(name in it.text for name in _WAITS)]
    if waits:
        says = f"{waits[0].subject.removeprefix('process:')} waits in {waits[0].text}"
        yield Ground(kind="mechanism", says=says, evidence=(waits[0], cause.evidence[0]))
