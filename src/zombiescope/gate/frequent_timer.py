"""A timer fires so often that its runs alone are a stream of new cgroups.

Why it matters: every run creates a cgroup and removes it, and a cgroup that is charged for page cache stays: a run
    every 30 s is 2,880 a day. A daemon that sleeps between two rounds needs one.
Passes: timers that fire every five minutes or less often. Some distributions ship one that fires once a minute
    (AL2023's refresh-policy-routes@.timer), which is a note; more often is an error.
"""

from __future__ import annotations

from collections.abc import Iterator

from zombiescope.core import Blind
from zombiescope.gate._image import Image
from zombiescope.gate._objection import Objection, systemctl
from zombiescope.knowledge.agents import timers

WHEN = ("image", "look", "soak")
FASTEST = 60.0  # seconds: no distribution we know ships a faster one, and at this pace 1,000 runs take 17 hours
DAY = 86_400  # seconds, to say how many runs that is a day


def look(image: Image) -> Iterator[Objection | Blind]:
    for name, pace in _paces(image).items():
        if pace <= timers().often_seconds:
            runs = f"{DAY / pace:,.0f} runs a day" if pace > 0 else "without a pause"
            yield Objection(
                subject=f"unit:{name}",
                says=f"fires every {pace:g} s, {runs}: {timers().leaks}",
                where=image.files.unit(name).path,
                level="error" if pace < FASTEST else "note",
                fix=(systemctl("disable", name), "or do the work in one long-running service"),
            )


def saw(image: Image) -> str:
    paces = sorted(_paces(image).items(), key=lambda timer: timer[1])
    often = [f"{name} every {pace:g} s" for name, pace in paces[:1] if pace < float("inf")]
    return ", ".join([f"timers that start at boot: {len(paces)}", *often])


def _paces(image: Image) -> dict[str, float]:
    return {unit.name: image.files.every(unit.name) for unit in image.starting if unit.name.endswith(".timer")}
