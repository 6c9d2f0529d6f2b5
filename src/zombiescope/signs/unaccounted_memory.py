"""A large part of memory is in use and no line of the kernel's own account says by what.

Why it hurts: no process, cache or slab shows it, so nobody looks for it; what is left gets scarce, the node reclaims
    and kills. A driver that leaks pages does it, a capture with large packet rings, a file system with a cache of its
    own (ZFS), or a hypervisor that took memory back on an older kernel.
False alarms: buffers for graphics cards, network cards and sockets are pages of this kind too, and wanted. So it is
    only noted while the node has memory left; it is accused where memory is short.
References: Documentation/filesystems/proc.rst (meminfo); fs/proc/meminfo.c; https://github.com/canonical/lxd/issues/5405
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from zombiescope.core import Finding, Reading, Span, amount, lasting, percent
from zombiescope.core.harm import Harm, Part
from zombiescope.core.timeline import Series, Timeline

MISSING, TOTAL, AVAILABLE = "memory_unaccounted_bytes", "memory_total_bytes", "memory_available_bytes"
# Scale: shares of all memory.
NEEDS = (MISSING, TOTAL, AVAILABLE)
COMPRESSED, PAGE = "memory_compressed_pages", 4_096  # bytes of a page: of larger ones too little is taken off
LARGE = 0.2  # of all memory: an idle node has 0.3 to 1 %, one with several fast network cards up to a tenth
GROWN = 0.05  # of all memory, more than when the recording began: rings and buffers are made once and stay
SHORT = 0.1  # of all memory is available: below it, the next program makes the node reclaim
STEADY = 0.9  # of its rise is kept: what goes up and down is somebody's work, what only goes up is a leak


def find(timeline: Timeline) -> Iterator[Finding]:
    missing, total = _missing(timeline), timeline.series(TOTAL).latest.value
    grown = _grown(missing)
    large = missing.latest.value >= LARGE * total
    if not large and grown < GROWN * total:
        return
    available = timeline.series(AVAILABLE).latest
    rise = f", {amount(grown)} more than {lasting(missing.span.seconds)} before" if grown >= GROWN * total else ""
    short = available.value <= SHORT * total
    left = f"; only {percent(available.value / total)} of memory is available" if short else ""
    yield Finding(
        subject="node",
        span=missing.span,
        says=(
            f"has {amount(missing.latest.value)} of memory in use that nothing accounts for, "
            f"{percent(missing.latest.value / total)} of all{rise}{left}"
        ),
        evidence=(missing.first, missing.latest, timeline.series(TOTAL).latest, available),
        harm=_harm(missing, missing.span, available, grown) if short else Harm(),
    )


def saw(timeline: Timeline) -> tuple[str, tuple[Reading, ...]]:
    missing, total = _missing(timeline), timeline.series(TOTAL)
    if not len(missing) or not len(total):
        return "", ()
    share = missing.latest.value / max(total.latest.value, 1.0)
    words = f"{amount(missing.latest.value)} in no line of meminfo, {percent(share, 1)} of all memory"
    return words, (missing.latest, total.latest)


def _missing(timeline: Timeline) -> Series:
    """What no line of meminfo counts, without the compressed swap that another file of the kernel counts."""
    missing, pages = timeline.series(MISSING), timeline.series(COMPRESSED)
    if not len(pages) or not len(missing):
        return missing
    held = np.nan_to_num(pages.sampled(np.maximum(missing.at, pages.at[0]))) * PAGE
    return replace(missing, values=np.maximum(missing.values - held, 0.0))


def _grown(missing: Series) -> float:
    """By how much it rose, if it kept what it took."""
    rise, most = missing.latest.value - missing.first.value, float(missing.values.max()) - missing.first.value
    return rise if rise >= STEADY * most else 0.0


def _harm(missing: Series, span: Span, available: Reading, grown: float) -> Harm:
    soon = available.value * span.seconds / grown if grown > 0 and span.seconds > 0 else None
    part = Part(figure="held", who="memory:unaccounted", amount=missing.latest.value, span=span)
    return Harm(parts=(part,), soon_seconds=soon, limit="all memory" if soon is not None else "")
