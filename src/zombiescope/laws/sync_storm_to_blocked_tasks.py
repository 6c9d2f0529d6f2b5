"""A task that waits for the journal, or for pages to be written, sleeps uninterruptibly until that is done."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground
from zombiescope.core.timeline import Timeline
from zombiescope.derived.blocked import waits_for_it

WITHIN = 10.0  # seconds: blocked tasks are sampled every five


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    yield from waits_for_it(cause, effect, "writing")
