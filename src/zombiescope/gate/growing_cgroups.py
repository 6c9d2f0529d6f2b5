"""The number of memory cgroups grows on an idle machine.

Why it matters: a leak shows as growth long before the count is high: one every 15 s is 5,760 a day.
Passes: a machine that has about as many in the last third of the soak as in the first, by their medians, so that
    neither a login nor a burst that drains counts. A soak too short for the slowest known leak is blind, not a pass.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from zombiescope.core import Blind, lasting
from zombiescope.core.timeline import Series
from zombiescope.gate._image import Image
from zombiescope.gate._memory import COUNTED_FROM, memory_cgroups
from zombiescope.gate._objection import Objection

WHEN = ("soak",)
NEEDS = COUNTED_FROM
NOISE = 20.0  # cgroups: logins, timers and services that start late; 8 to 14 remained after a purge
SLOWEST = 240.0  # an hour: a supervisor that backs off to 15 s, the slowest leak that ever took a fleet down
THIRD = 2 / 3  # of the soak lie between the middles of its first and its last third


def look(image: Image) -> Iterator[Objection | Blind]:
    cgroups = memory_cgroups(image.timeline)
    before, after, hours = slope(cgroups)
    if after - before >= NOISE:
        yield Objection(
            subject="controller:memory",
            says=_figures(before, after, hours),
            where=cgroups.latest.source,
            fix=("zombiescope diagnose --seconds 60 names what creates them",),
        )
    elif not hours or NOISE / hours > SLOWEST:
        needed = NOISE / SLOWEST / THIRD * 60
        why = f"{lasting(cgroups.span.seconds)} is too short for a leak of {SLOWEST:.0f} an hour: use --soak {needed:g}"
        yield Blind(what="cgroups_known", source=cgroups.latest.source, why=why)


def saw(image: Image) -> str:
    return _figures(*slope(memory_cgroups(image.timeline)))


def slope(cgroups: Series) -> tuple[float, float, float]:
    """The median of the first third, that of the last third, and the hours between the middles of the two."""
    seconds = cgroups.span.seconds
    if seconds <= 0:
        return (only := float(cgroups.values[0])), only, 0.0
    # A value holds until the next, and a recorder may leave out what did not change: so it is resampled evenly.
    start = cgroups.span.start
    first = cgroups.sampled(np.linspace(start, start + seconds / 3, 100))
    last = cgroups.sampled(np.linspace(cgroups.until - seconds / 3, cgroups.until, 100))
    return float(np.nanmedian(first)), float(np.nanmedian(last)), seconds * THIRD / 3600


def _figures(before: float, after: float, hours: float) -> str:
    pace = f", {(after - before) / hours:+,.0f} an hour" if hours else ""
    return f"{before:,.0f} memory cgroups in the first third of the soak, {after:,.0f} in the last{pace}"
