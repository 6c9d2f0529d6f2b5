"""Of too many findings of one sign, those that matter: near something that broke, then those that cost most."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping, Sequence

from zombiescope.core.model import Finding

NEAR = 90.0  # seconds from a cause to what it breaks: the longest that a law waits for a job to die


def happened(found: Mapping[str, Sequence[Finding]]) -> list[float]:
    """When things broke: resets, kills, jobs, by all signs together."""
    return sorted(it.span.start for its in found.values() for it in its if it.harm.broken)


def worst(found: list[Finding], events: Sequence[float], most: int) -> list[Finding]:
    """At most so many, in the order given."""
    if len(found) <= most:
        return found
    ranked = sorted(range(len(found)), key=lambda place: _rank(found[place], events))
    return [found[place] for place in sorted(ranked[:most])]


def _rank(finding: Finding, events: Sequence[float]) -> tuple[float, ...]:
    after = bisect_left(events, finding.span.start)
    near = after < len(events) and events[after] <= finding.span.end + NEAR
    cores = (finding.harm.waited_cores or 0.0) + (finding.harm.burnt_cores or 0.0)
    return (not near, -cores * max(finding.span.seconds, 1.0), -finding.span.seconds)
