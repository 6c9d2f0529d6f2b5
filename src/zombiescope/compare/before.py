"""What was different just before an event, over all events at once.

Each event's window is ranked among quiet windows near it; a thing's score is its mean rank over all events, so one
huge burst counts less than five small ones. What chance does is measured, not assumed: in each of `ROUNDS` rounds a
random window of each event takes the place of the true one, the same for all things, and the highest score of any
thing is kept. A rise is significant if its score is among the highest `ALPHA` of those. That
holds for all things together, however many are compared and however correlated they are (Westfall and Young's max-T),
and assumes nothing about their distributions; only that, without the cause, an event might as well have come at
another of its windows. Events close together are moved together, since slow drift is high, or low, for all of them. A
rise is not yet a cause: it is what to check first.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zombiescope.compare.measures import Measure, Measured, of_series
from zombiescope.compare.quiet_time import Event, Windows, recorded, windows
from zombiescope.compare.rise import Rise, telling
from zombiescope.compare.time_spent import Profile
from zombiescope.core import Span, UserError
from zombiescope.core.samples import Ints, Samples
from zombiescope.core.timeline import Floats, Timeline
from zombiescope.derived.kernel_log import log_of, unheard
from zombiescope.diagnosis.examine import examine
from zombiescope.members.rooms import healthy, load, names

ALPHA = 0.005  # one false alarm in 200 questions, in theory; measured on simulated nodes: docs/before.md
ROUNDS = 2_000  # of chance: the smallest p that can be measured is 1 in 2,001
FEWEST = 3  # events: with two, each at the top of 41 windows, one of some hundred things gets there by chance
SHOWN = 10  # rises in all
SHOWN_TIMES, SHOWN_CORES = 6, 2  # functions and processes; cores. Series take the rest
LEAST = 0.01  # cores: a rise of less than 1 % of one core starves nothing
_SAME = 1e-6  # scores closer than that are equal except for rounding: they are multiples of 1 in 8,200
HIGH = 95.0  # percentile of its quiet windows: an event above it had the rise too
Ranks = npt.NDArray[np.float32]  # half the memory, and there are many


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """The result."""

    events: tuple[Event, ...]
    seconds: float
    apart: int  # groups of events that are far enough apart to be independent
    quiet: int  # windows compared with
    compared: int  # things
    rises: tuple[Rise, ...]  # the most important first; if none is significant, the largest all the same
    notes: tuple[str, ...]

    @property
    def enough(self) -> bool:
        """With fewer events nothing can be significant."""
        return self.apart >= FEWEST

    @property
    def significant(self) -> tuple[Rise, ...]:
        return tuple(rise for rise in self.rises if rise.significant)


def default_event() -> str:
    """The sign whose beginnings are compared where nothing else is asked for."""
    return next(name for name, sign in healthy("signs").items() if getattr(sign, "DEFAULT_EVENT", False))


def events_of(timeline: Timeline, wanted: str) -> tuple[list[Event], str]:
    """When a sign's findings began, if `wanted` is a sign; else the lines of the kernel log that match.

    Also why some may have been missed; empty if none.
    """
    if wanted in names("signs"):
        case = examine(timeline, signs={wanted: load("signs", wanted)}, laws={})
        blind = "; ".join(it.says for it in case.verdicts if it.state in ("blind", "broken"))
        return [Event(at=it.span.start, says=f"{it.subject} {it.says}") for it in case.findings], blind
    try:
        expression = re.compile(wanted)
    except re.error as error:
        raise UserError(f"--event {wanted!r} is neither a sign nor a valid regex: {error}") from None
    log, deaf = log_of(timeline), unheard(timeline)
    matching = [(place, text) for place, text in sorted(log.texts.items()) if expression.search(text)]
    return [Event(at=float(log.at[place]), says=text) for place, text in matching], deaf.why if deaf else ""


def compare(
    timeline: Timeline | None, capture: Samples | None, events: Sequence[Event], seconds: float, *, seed: int = 0
) -> Comparison:
    """Compare all that can be compared; the same question always gets the same answer."""
    chosen = windows(events, recorded(timeline, _span(timeline, capture)), seconds)
    if not chosen.events:
        return Comparison(events=(), seconds=seconds, apart=0, quiet=0, compared=0, rises=(), notes=chosen.notes)
    profile = Profile(capture, chosen) if capture is not None and len(capture) else None
    parts = [profile.measured()] if profile else []
    parts += [of_series(timeline, chosen)] if timeline is not None else []
    measured = Measured(
        [it for part in parts for it in part.measures],
        np.concatenate([part.values for part in parts], axis=1) if parts else np.empty((len(chosen), 0)),
    )
    judged = _judged(measured, chosen, seed)
    return Comparison(
        events=chosen.events,
        seconds=seconds,
        apart=int(chosen.together[-1]) + 1,
        quiet=chosen.quiet,
        compared=len(measured.measures),
        rises=tuple(_shown(judged, profile)),
        notes=chosen.notes,
    )


def _span(timeline: Timeline | None, capture: Samples | None) -> Span:
    if timeline is not None:
        return timeline.span
    return Span(capture.start / 1e9, capture.end / 1e9) if capture is not None else Span(0.0, 0.0)


def _judged(measured: Measured, chosen: Windows, seed: int) -> list[tuple[Measure, Rise]]:
    """Every measure that rose."""
    count, values = len(chosen.events), measured.values
    # The windows of each event in order of time, and which of them is the one before it.
    groups = np.column_stack([np.arange(count), chosen.controls])
    order = np.argsort(chosen.starts[groups], axis=1)
    own = np.argmin(order, axis=1)
    ranks = np.stack([_ranks(values[group]) for group in np.take_along_axis(groups, order, axis=1)])
    score = ranks[np.arange(count), own].mean(0)
    highest = _by_chance(ranks, own, chosen.together, seed)
    p = (1 + len(highest) - np.searchsorted(highest, score - _SAME)) / (len(highest) + 1)
    quiet = values[count:]
    mean = quiet.mean(0)
    spread = _spread(quiet)
    high = np.percentile(values[chosen.controls], HIGH, axis=1)
    groups_apart = int(chosen.together[-1]) + 1
    found = []
    for place, measure in enumerate(measured.measures):
        before = float(values[:count, place].mean())
        rose = before - float(np.median(quiet[:, place]))
        if before <= mean[place] or rose <= 0:
            continue
        rise = Rise(
            kind=measure.kind,
            subject=measure.subject,
            what=measure.what,
            unit=measure.unit,
            before=before,
            quiet=float(mean[place]),
            spreads=rose / float(spread[place]) if spread[place] > 0 else float("inf"),
            events=int(np.count_nonzero(values[:count, place] > high[:, place])),
            p=float(p[place]),
            significant=groups_apart >= FEWEST and bool(p[place] <= ALPHA),
            by_event=tuple(values[:count, place].tolist()),
        )
        found.append((measure, rise))
    return found


def _ranks(values: Floats) -> Ranks:
    """The rank of each row among all rows, column by column, from 0 to 1; equal ones share the middle."""
    below = (values[:, None] > values[None]).sum(1)
    equal = (values[:, None] == values[None]).sum(1)
    ranks: Ranks = ((below + equal / 2) / len(values)).astype(np.float32)
    return ranks


def _by_chance(ranks: Ranks, own: Ints, together: Ints, seed: int) -> Ranks:
    """The highest score of any thing in each round, sorted. Events of one group move by the same number of windows."""
    rng = np.random.default_rng(seed)
    count, many = ranks.shape[:2]
    moves = rng.integers(0, many, (ROUNDS, together[-1] + 1))[:, together]
    every = np.arange(count)
    found: Ranks = np.sort([ranks[every, row].mean(0).max(initial=0.0) for row in (own + moves) % many])
    return found


def _spread(values: Floats) -> Floats:
    """The median distance from the median, as of a normal distribution; where most are equal, the standard one."""
    robust = 1.4826 * np.median(np.abs(values - np.median(values, axis=0)), axis=0)
    found: Floats = np.where(robust > 0, robust, values.std(0))
    return found


def _shown(judged: Sequence[tuple[Measure, Rise]], profile: Profile | None) -> Iterator[Rise]:
    """What ran more, by time; on which cores; and which series rose, the most unusual first."""
    if any(rise.significant for _, rise in judged):
        judged = [it for it in judged if it[1].significant]
    series = sorted((rise for it, rise in judged if it.kind == "series"), key=lambda rise: (rise.p, -rise.spreads))
    timed = [it for it in judged if it[0].kind != "series"]
    timed = [it for it in timed if it[1].unit != "cores" or it[1].before - it[1].quiet >= LEAST]
    timed.sort(key=lambda it: it[1].quiet - it[1].before)
    ran = [it for it in timed if it[0].kind == "process"]
    if profile is not None:
        ran += telling(profile, [it for it in timed if it[0].kind == "function"])
    ran.sort(key=lambda it: it[1].quiet - it[1].before)
    cores = [rise for it, rise in timed if it.kind == "core"][:SHOWN_CORES]
    yield from ([rise for _, rise in ran[:SHOWN_TIMES]] + cores + series)[:SHOWN]
