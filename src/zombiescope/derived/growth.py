"""When what grows reaches its limit: by the growth over the recording, or by what has gathered since boot."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

from zombiescope.core.harm import Harm
from zombiescope.core.model import Reading
from zombiescope.core.timeline import Series, Timeline
from zombiescope.core.words import lasting

UP = 3600.0  # seconds since boot: what a node makes while it starts says nothing about the days that follow
LOOKS = 3  # values of a rise: between two of them a batch of jobs, or a few pods, may have come
AT_ONCE = 86_400.0  # seconds: so fast is no batch, two values are enough; of what takes longer they say nothing
SURE = 2.0  # standard deviations of a count: the interval that is said


class Soon(NamedTuple):
    """When a limit is reached. Not known: nothing says whether it grows. Known and no seconds: it does not grow."""

    seconds: float | None = None
    known: bool = True
    words: str = ""
    evidence: tuple[Reading, ...] = ()

    def added_to(self, harm: Harm) -> Harm:
        unknown = harm.unknown if self.known else (*harm.unknown, "soon")
        return replace(
            harm,
            soon_seconds=self.seconds,
            limit=self.words,
            unknown=unknown,
            evidence=(*harm.evidence, *self.evidence),
        )


def reaches(timeline: Timeline, series: Series, limit: float, *, least: float, called: str) -> Soon:
    """When `series` reaches `limit`, which is `called` so; a rise of fewer than `least` over the recording is chance.

    A rise counts only if it never falls. Where it is too small to tell, or there is one sample, the pace is that
    since boot: what has been gathered in days does not run over in hours.
    """
    if not len(series) or limit <= series.values[-1]:
        return Soon(known=bool(len(series)))
    now, grown = float(series.values[-1]), float(series.values[-1] - series.values[0])
    seconds = series.until - float(series.at[0])  # a value that did not change is written once
    steady = bool((series.values[1:] >= series.values[:-1]).all())
    left = (limit - now) / (grown / seconds) if seconds > 0 and grown > 0 else math.inf
    if grown >= least and steady and (len(series) >= LOOKS or left < AT_ONCE):
        spread = SURE / math.sqrt(grown)
        low, high = left / (1 + spread), left / max(1 - spread, 0.1)
        words = f"{called} in {lasting(left)} ({lasting(low)} to {lasting(high)})"
        return Soon(left, True, words, (series.first, series.latest))
    if seconds > 0 and grown <= 0:
        return Soon()
    up = timeline.series("uptime_seconds")
    if not len(up) or up.latest.value < UP or now <= 0:
        return Soon(known=False)
    left = (limit - now) / (now / up.latest.value)
    return Soon(left, True, f"{called} in {lasting(left)} at the pace since boot", (series.latest, up.latest))


def first_of(*found: Soon) -> Soon:
    """The limit that is reached first; what is not known does not hide what is."""
    timed = [it for it in found if it.seconds is not None]
    if timed:
        return min(timed, key=lambda it: it.seconds or 0.0)
    return next((it for it in found if not it.known), Soon())
