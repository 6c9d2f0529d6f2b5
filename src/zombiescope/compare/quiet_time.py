"""Which stretches of time are compared: the one before each event, and quiet ones of the same length near it.

Each event has its own controls, as in a case-crossover study: the node an hour earlier is another node (other jobs,
more dead cgroups), so a time is compared with times around it, never with the whole recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zombiescope.core import Span, UserError
from zombiescope.core.samples import Ints
from zombiescope.core.timeline import Floats, Timeline

CONTROLS = 40  # quiet windows for each event: three events that all exceed their 40 come about once in 69,000 by chance
FEWEST_CONTROLS = 10  # fewer, and even five events cannot stand out of some hundred things that are compared
TOGETHER = 4  # window lengths: events nearer than that to one another are no two witnesses
MOST_EVENTS = 100  # more tell nothing more; those compared are spread over all
_NEAR = 1e-3  # seconds: a window may touch the next
HOLE = 10.0  # seconds without any look: nobody was recording


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened, as people are told of it."""

    at: float  # seconds of the recording's clock
    says: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Windows:
    """Stretches of one length by their starts: first one for each event, then the quiet ones."""

    seconds: float
    starts: Floats
    events: tuple[Event, ...]
    controls: Ints  # a row for each event: places in `starts`, in the order of time
    notes: tuple[str, ...]  # what was left out

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def quiet(self) -> int:
        return len(self) - len(self.events)

    @property
    def together(self) -> Ints:
        """For each event the number of its group: those near one another share what wanders slowly, and its luck."""
        apart = np.diff([event.at for event in self.events]) > TOGETHER * self.seconds
        return np.concatenate([np.zeros(min(len(self.events), 1), np.int64), np.cumsum(apart)])


def windows(events: Sequence[Event], recorded: Sequence[Span], seconds: float) -> Windows:
    """The windows for these events; a UserError where there is too little quiet time to compare with."""
    episodes = _episodes(events, seconds)
    whole = [
        it for it in episodes if any(span.start <= it[0].at - seconds and it[0].at <= span.end for span in recorded)
    ]
    notes = []
    if len(episodes) < len(events):
        notes.append(f"{len(events):,} events within {seconds:g} s of one another count as {len(episodes):,}")
    if len(whole) < len(episodes):
        notes.append(f"{len(episodes) - len(whole):,} left out: what was before them is not recorded")
    if len(whole) > MOST_EVENTS:
        notes.append(f"of {len(whole):,} events {MOST_EVENTS} are compared, spread over all of them")
        whole = [whole[place] for place in np.linspace(0, len(whole) - 1, MOST_EVENTS).astype(int).tolist()]
    near = [(it[0], _nearest(it[0], recorded, episodes, seconds)) for it in whole]
    good = [it for it in near if len(it[1]) >= FEWEST_CONTROLS]
    if near and not good:
        most = max(len(it[1]) for it in near)
        raise UserError(
            f"only {most} quiet stretches of {seconds:g} s to compare with, and {FEWEST_CONTROLS} are needed: "
            "give fewer --seconds, or a longer recording"
        )
    if len(good) < len(near):
        notes.append(f"{len(near) - len(good):,} left out: too little quiet time near them")
    many = min((len(it[1]) for it in good), default=0)
    quiet, places = np.unique([np.sort(it[1][:many]) for it in good], return_inverse=True)
    return Windows(
        seconds=seconds,
        starts=np.concatenate([np.array([event.at - seconds for event, _ in good]), quiet]),
        events=tuple(event for event, _ in good),
        controls=(places.reshape(len(good), many) + len(good)).astype(np.int64),
        notes=tuple(notes),
    )


def recorded(timeline: Timeline | None, whole: Span) -> list[Span]:
    """Where somebody was recording: a hole in a recording is no quiet time."""
    looks = [timeline.looks(what).at for what in timeline.looked_for()] if timeline else []
    # The busiest prober tells best; all of them together would only repeat it.
    times = max(looks, key=len, default=np.empty(0))
    if len(times) < 2:
        return [whole]
    breaks = np.flatnonzero(np.diff(times) > HOLE)
    starts, ends = times[np.append(0, breaks + 1)], times[np.append(breaks, len(times) - 1)]
    return [Span(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _episodes(events: Sequence[Event], apart: float) -> list[tuple[Event, float]]:
    """Events that follow one another within `apart` seconds are one: the first, and when the last of them was."""
    found: list[tuple[Event, float]] = []
    for event in sorted(events, key=lambda it: it.at):
        if found and event.at - found[-1][1] <= apart:
            found[-1] = (found[-1][0], event.at)
        else:
            found.append((event, event.at))
    return found


def _nearest(event: Event, recorded: Sequence[Span], episodes: Sequence[tuple[Event, float]], seconds: float) -> Floats:
    """Where the quiet windows of an event begin, the nearest first.

    Far from any event: neither in the window before it, nor in as long again on either side of that. And as far from
    one another: what lasts longer than a window raises two neighbours, which then vie for the first place, while the
    event's window, whose neighbours are not quiet, would have it for itself. Chance would look like a cause.
    """
    pitch = 2 * seconds
    before = int((event.at - recorded[0].start) / pitch) + 1
    after = int((recorded[-1].end - event.at) / pitch) + 1
    starts = event.at - seconds + pitch * np.arange(-before, after + 1, dtype=np.float64)
    ends = starts + seconds
    good = np.zeros(len(starts), np.bool_)
    for span in recorded:
        good |= (starts >= span.start) & (ends <= span.end)
    for first, last in episodes:
        good &= (ends <= first.at - 2 * seconds + _NEAR) | (starts >= last + seconds - _NEAR)
    starts = starts[good]
    return starts[np.argsort(np.abs(starts - (event.at - seconds)), kind="stable")][:CONTROLS]
