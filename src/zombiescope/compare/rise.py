"""What rose before events; of functions that rose together only the important ones: not every caller and callee."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from zombiescope.compare.measures import Measure
from zombiescope.compare.time_spent import Profile
from zombiescope.core.samples import Mask
from zombiescope.core.timeline import Floats

WEIGHED = 40  # functions, by how much they rose, that are compared with each other
MOST_OF = 0.5  # of a function's rise: if more is in one that it called, that one is shown; main() rises with everything
NEARLY_ALL = 0.9  # of a function's rise: if so much is in one that is shown, it is a part of that


@dataclass(frozen=True, slots=True, kw_only=True)
class Rise:
    """One thing that was higher before the events than in quiet time."""

    kind: str  # function, process, core or series
    subject: str
    what: str  # own or total time; the name of a series
    unit: str
    before: float  # the mean over the events
    quiet: float  # the mean over the quiet windows
    spreads: float  # the difference, in robust spreads of the quiet windows
    events: int  # how many of the events had it: higher than 95 % of their quiet windows
    p: float  # probability that the highest of all things compared gets this far by chance
    significant: bool
    by_event: tuple[float, ...]  # the value before each event
    note: str = ""  # which process ran a function

    @property
    def ratio(self) -> float | None:
        return self.before / self.quiet if self.quiet > 0 else None


def telling(profile: Profile, functions: Sequence[tuple[Measure, Rise]]) -> list[tuple[Measure, Rise]]:
    """Functions that rose (the most first, by own or total time) without those that only rose with another."""
    once = {it[0].place: it for it in reversed(functions)}  # the larger of own and total is the total, and comes first
    places = sorted(once, key=lambda place: once[place][1].quiet - once[place][1].before)[:WEIGHED]
    cases = np.arange(len(profile.windows.events))
    rose = profile.by_stack(cases) - profile.by_stack(np.arange(len(cases), len(profile.windows)))
    holds = {place: profile.stacks_of(place) for place in places}
    depth = {place: profile.depth_of(place, np.maximum(rose, 0.0)) for place in places}
    whole = {place: float(rose[holds[place]].sum()) for place in places}

    def shared(one: int, other: int) -> float:
        return float(rose[holds[one] & holds[other]].sum())

    shown: list[int] = []
    for place in places:
        deeper = [it for it in places if depth[it] > depth[place]]
        only_calls = any(shared(place, it) > MOST_OF * whole[place] for it in deeper)
        if not only_calls and not any(shared(place, it) >= NEARLY_ALL * whole[place] for it in shown):
            shown.append(place)
    return [(once[place][0], replace(once[place][1], note=_whose(profile, holds[place]))) for place in shown]


def _whose(profile: Profile, stacks: Mask) -> str:
    """Which process ran it most, before the events."""
    names, process_of = profile.processes
    spent: Floats = np.zeros(len(names))
    for place in range(len(profile.windows.events)):
        rows, weight = profile.window(place)
        inside = stacks[profile.capture.stack[rows]]
        spent += np.bincount(process_of[profile.capture.who[rows[inside]]], weight[inside], len(names))
    most = int(spent.argmax())
    return f"{spent[most] / spent.sum():.0%} of it in {names[most]}" if spent.sum() > 0 else ""
