"""After the caches were dropped all programs read their files from disk at once, and a queue forms there."""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Finding, Ground, Span
from zombiescope.core.timeline import Timeline

WITHIN = 20.0  # seconds: what is in use is read again within that
TIMES = 3.0  # times what was read before: with less, the disk was as busy without it
LEAST = 1_024.0  # KB a second: below it, no disk stalls


def grounds(cause: Finding, effect: Finding, timeline: Timeline) -> Iterator[Ground]:
    loaded = timeline.rate("vmstat_pgpgin_total")
    after, before = loaded.between(cause.span), loaded.between(Span(timeline.span.start, cause.span.start))
    if not len(after) or not len(before) or not after.mean() >= max(LEAST, TIMES * before.mean()):
        return
    says = f"{after.mean():,.0f} KB a second were read from disk after the drop, {before.mean():,.0f} before"
    yield Ground(kind="dose", says=says, evidence=(cause.evidence[1], after.figure("kilobytes_read_per_second")))
