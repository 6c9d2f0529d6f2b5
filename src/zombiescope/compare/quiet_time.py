"""Which windows of time are compared: the one before each event, and quiet ones of the same length near it.

Each event has its own controls, as in a case-crossover study: an hour earlier the node was different (other jobs, fewer
dying cgroups), so a window is compared with windows near it, never with the whole recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zombiescope.core import Span, UserError
from zombiescope.core.samples import Ints
from zombiescope.core.timeline import Floats, Timeline

CONTROLS = 40  # quiet windows for each event: three events that all exceed their 40 come about once in 69,000 by chance
FEWEST_CONTROLS = 10  # with fewer, even five events cannot stand out among some hundred things
TOGETHER = 4  # window lengths: events closer than that are not independent
MOST_EVENTS = 100  # more add nothing; those compared are spread over all
_NEAR = 1e-3  # seconds: a window may touch the next
HOLE = 10.0  # seconds without any sample: nothing was recorded


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened, and how it is described."""

    at: float  # seconds of the recording's clock
    says: str


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Windows:
    """Windows of one length by their starts: first one for each event, then the quiet ones."""

    seconds: float
    starts: Floats
    events: tuple[Event, ...]
    controls: Ints  # a row for each event: indices into `starts`, in order of time
    notes: tuple[str, ...]  # what was left out

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def quiet(self) -> int:
        return len(self) - len(self.events)

    @property
    def together(self) -> Ints:
        """For each event the number of its group: events close together share the same slow drift."""
        apart = np.diff([event.at for event in self.events]) > TOGETHER * self.seconds
        return np.concatenate([np.zeros(min(len(self.events), 1), np.int64), np.cumsum(apart)])


def windows(events: Sequence[Event], recorded: Sequence[Span], seconds: float) -> Windows:
    """The windows for these events; raises UserError if there is too little quiet time to compare with."""
    episodes = _episodes(events, seconds)
    whole = [
        it for it in episodes if any(span.start <= it[0].at - seconds and it[0].at <= span.end for span in recorded)
    ]
    notes = []
    if len(episodes) < len(events):
        notes.append(f"{len(events):,} events, some within {seconds:g} s of each other, count as {len(episodes):,}")
    if len(whole) < len(episodes):
        notes.append(
            f"{len(episodes) - len(whole):,} of {len(episodes):,} events left out: the time before is not recorded"
        )
    if len(whole) > MOST_EVENTS:
        notes.append(f"{MOST_EVENTS} of {len(whole):,} events are compared, spread over all of them")
        whole = [whole[place] for place in np.linspace(0, len(whole) - 1, MOST_EVENTS).astype(int).tolist()]
    near = [(it[0], _nearest(it[0], recorded, episodes, seconds)) for it in whole]
    good = [it for it in near if len(it[1]) >= FEWEST_CONTROLS]
    if near and not good:
        most = max(len(it[1]) for it in near)
        raise UserError(
            f"only {most} quiet windows of {seconds:g} s to compare with, {FEWEST_CONTROLS} are needed: "
            "give a smaller --seconds, or a longer recording"
        )
    if len(good) < len(near):
        notes.append(f"{len(near) - len(good):,} of {len(near):,} events left out: too little quiet time near them")
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
    """The spans that were recorded: a gap in a recording is not quiet time."""
    looks = [timeline.looks(what).at for what in timeline.looked_for()] if timeline else []
    # The probe that samples most often shows gaps best; all together would only repeat it.
    times = max(looks, key=len, default=np.empty(0))
    if len(times) < 2:
        return [whole]
    breaks = np.flatnonzero(np.diff(times) > HOLE)
    starts, ends = times[np.append(0, breaks + 1)], times[np.append(breaks, len(times) - 1)]
    return [Span(start, end) for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]


def _episodes(events: Sequence[Event], apart: float) -> list[tuple[Event, float]]:
    """Events within `apart` seconds of each other are one: the first, and the time of the last."""
    found: list[tuple[Event, float]] = []
    for event in sorted(events, key=lambda it: it.at):
        if found and event.at - found[-1][1] <= apart:
            found[-1] = (found[-1][0], event.at)
        else:
            found.append((event, event.at))
    return found


def _nearest(event: Event, recorded: Sequence[Span], episodes: Sequence[tuple[Event, float]], seconds: float) -> Floats:
    """The starts of an event's quiet windows, the nearest first.

    Far from any event: neither in the window before it, nor one window on either side of that. And as far from each
    other: what lasts longer than a window raises two neighbours, which then share the first rank, while the event's
    window, whose neighbours are not quiet, would have it alone. Chance would look like a cause.
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
