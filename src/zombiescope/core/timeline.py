"""What a sign may ask of a recording: series in columns, with every look that was taken at them.

A value holds until the next one, and never beyond the last look that could see it: a probe that died does not keep
its last word forever. A recorder may therefore write only what changed; the answers are the same.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol, TypeVar, cast

import numpy as np
import numpy.typing as npt

from zombiescope.core.model import Reading, Span
from zombiescope.core.samples import Samples, Wanted, no_samples

Floats = npt.NDArray[np.float64]
_T = TypeVar("_T")
_LATE = 0.2  # of the pace: readings are never quite on time
_NOTHING: Floats = np.empty(0)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Series:
    """One thing over time: each value holds from its own time to the next, the last one to `until`."""

    what: str
    subject: str
    at: Floats
    values: Floats
    until: float
    sources: tuple[str, ...]  # one for all values, or one for each
    texts: Mapping[int, str] = field(default_factory=dict)  # the kernel's words, where they were kept
    pace: float = 0.0  # of a rate: seconds between two readings, as it was really read; a slow loop reads less often

    def __len__(self) -> int:
        return len(self.at)

    def reading(self, index: int) -> Reading:
        """One value as evidence."""
        index = range(len(self))[index]
        return Reading(
            what=self.what,
            subject=self.subject,
            value=float(self.values[index]),
            at=float(self.at[index]),
            source=self.sources[index if len(self.sources) > 1 else 0],
            text=self.texts.get(index, ""),
        )

    @property
    def first(self) -> Reading:
        return self.reading(0)

    @property
    def latest(self) -> Reading:
        return self.reading(-1)

    @property
    def span(self) -> Span:
        return Span(float(self.at[0]), self.until)

    def mean(self) -> float:
        """The average over time: a value counts for as long as it held. NaN where nothing was known."""
        if not len(self):
            return float("nan")
        # Not a dot product, which would wake BLAS's threads; and all in one sum, where all is known.
        total = float((self.values[:-1] * (self.at[1:] - self.at[:-1])).sum())
        total += float(self.values[-1] * (self.until - self.at[-1]))
        length = float(self.until - self.at[0])
        if np.isnan(total):
            known = ~np.isnan(self.values)
            held = np.diff(self.at, append=self.until)[known]
            total, length = float((self.values[known] * held).sum()), float(held.sum())
        return total / length if length > 0 else float("nan")

    def figure(self, what: str, value: float | None = None) -> Reading:
        """A figure worked out over this stretch, as evidence: its mean, unless another is given."""
        value = round(self.mean() if value is None else value, 4)
        return Reading(what=what, subject=self.subject, value=value, at=self.span.start, source=self.sources[0])

    def between(self, span: Span) -> Series:
        """The part within a span, beginning with the value that held when the span began."""
        if span.start > self.until:
            return self._part(0, 0, self.until)
        start = max(int(np.searchsorted(self.at, span.start, side="right")) - 1, 0)
        end = int(np.searchsorted(self.at, span.end, side="right"))
        return self._part(start, max(start, end), min(self.until, span.end), span.start)

    def sampled(self, times: Floats) -> Floats:
        """The value that held at each of `times`; NaN before the first and after `until`."""
        if not len(self):
            return np.full(len(times), np.nan)
        if times is self.at or (len(times) == len(self.at) and bool((times == self.at).all())):
            return self.values  # read each time that it changed, and at no other: most counters of a busy node
        index = np.searchsorted(self.at, times, side="right") - 1
        return np.where((index >= 0) & (times <= self.until), self.values[np.maximum(index, 0)], np.nan)

    def runs(self, *, above: float, lasting: float, bridging: float = 0.0) -> list[Series]:
        """Stretches at or over `above` for at least `lasting` seconds; a dip of up to `bridging` s does not end one.

        Where it was really read more slowly than that, a dip of one reading does not end one either.
        """
        high = self.values >= above
        # Where high begins and ends: the value that ends a stretch gives the stretch its end.
        edges = np.flatnonzero(np.diff(high, prepend=False, append=False))
        starts, ends = edges[::2], edges[1::2]
        begin, finish = self.at[starts], np.append(self.at, self.until)[ends]
        one_reading = max(bridging, self.pace * (1 + _LATE)) if bridging else 0.0
        apart = begin[1:] - finish[:-1] > np.where(starts[1:] - ends[:-1] == 1, one_reading, bridging)
        heads, tails = np.append(True, apart), np.append(apart, True)
        whole = zip(starts[heads[: len(starts)]], ends[tails[: len(ends)]], strict=True)
        long_enough = finish[tails[: len(ends)]] - begin[heads[: len(starts)]] >= lasting
        return [
            self._part(int(start), int(end), float(np.append(self.at, self.until)[end]))
            for (start, end), kept in zip(whole, long_enough, strict=True)
            if kept
        ]

    def _part(self, start: int, end: int, until: float, since: float = -np.inf) -> Series:
        return Series(
            what=self.what,
            subject=self.subject,
            at=self.at[start:end] if since == -np.inf else np.maximum(self.at[start:end], since),
            values=self.values[start:end],
            until=until,
            sources=self.sources[start:end] if len(self.sources) > 1 else self.sources,
            texts=self.texts and {it - start: text for it, text in self.texts.items() if start <= it < end},
            pace=self.pace,
        )


class ReadSamples(Protocol):
    """Reads the samples of a recording, and no more of it than it takes. The timeline is the recording's own."""

    def __call__(self, timeline: Timeline, span: Span | None, *, cpu: int | None, wanted: Wanted | None) -> Samples: ...


class Timeline:
    """A recording, ready for questions. Series are arrays; a Reading is made only when it is evidence."""

    def __init__(
        self,
        series: Iterable[Series] = (),
        looks: Mapping[str, Series] | None = None,
        read_samples: ReadSamples | None = None,
        within: Span | None = None,
    ) -> None:
        """`looks` says, for each thing that was looked for, when: 1 seen, 0 not seen and the text says why.

        `within`: of a part of a recording, which begins with what was read before it.
        """
        self._read_samples = read_samples
        self._looks = dict(looks or {})
        self._once: dict[object, object] = {}
        self._series: dict[str, dict[str, Series]] = {}
        for one in series:
            if len(one):
                self._series.setdefault(one.what, {})[one.subject] = one
        # What was looked at, from the first look to the last; a reading may tell of an earlier time (a log).
        every = list(self._looks.values()) or [one for group in self._series.values() for one in group.values()]
        starts, ends = [one.span.start for one in every if len(one)], [one.until for one in every if len(one)]
        self.span = Span(min(starts, default=0.0), max(ends, default=0.0))
        if within is not None and ends:
            end = min(self.span.end, within.end)
            self.span = Span(min(max(self.span.start, within.start), end), end)

    def whats(self) -> list[str]:
        return sorted(self._series)

    def subjects(self, what: str, kind: str = "") -> list[str]:
        """Whom a series is about, in natural order (cpu:2 before cpu:10); of one kind if asked ("cpu")."""
        return [*self.once(_subjects, what, kind)]

    def series(self, what: str, subject: str = "node") -> Series:
        """One thing over time; empty if it was never seen."""
        return self._series.get(what, {}).get(subject) or _empty(what, subject)

    def latest(self, what: str) -> list[Reading]:
        """The last reading of each subject."""
        return [self.series(what, subject).latest for subject in self.subjects(what)]

    def counted(self, what: str, subject: str = "node") -> Reading:
        """How much one of the recorder's own counters rose in this stretch; they count from when it was started."""
        series = self.series(what, subject)
        held = int(np.searchsorted(series.at, self.span.start))
        before = float(series.values[held - 1]) if held else 0.0
        rises = _rises(np.concatenate([[before], series.values[held:]])) if held < len(series) else _NOTHING
        return replace(series.latest, value=float(np.nansum(rises)))

    def looked_for(self) -> list[str]:
        return sorted(self._looks)

    def looks(self, what: str) -> Series:
        """Every look for `what`: 1 where it could be seen, 0 with the reason where not."""
        return self._looks.get(what) or _empty("looked", what)

    def looked(self, what: str, times: int = 1) -> bool:
        """True if somebody looked for `what` that often and could see, whether or not there was any."""
        return int(np.count_nonzero(self.looks(what).values)) >= times

    def samples(self, span: Span | None = None, *, cpu: int | None = None, wanted: Wanted | None = None) -> Samples:
        """Who ran, as the stacks show: within a span, on one core, in stacks that are wanted by their functions' names.

        A sample that ends a period without interrupts stands for all of it.
        """
        return self._read_samples(self, span, cpu=cpu, wanted=wanted) if self._read_samples else no_samples()

    def once(self, make: Callable[..., _T], *of: Hashable) -> _T:
        """`make(timeline, *of)`, worked out once: for what several signs ask and is costly (a log, line by line)."""
        if (make, of) not in self._once:
            self._once[make, of] = make(self, *of)
        return cast(_T, self._once[make, of])

    def look_times(self, what: str, over: float = 0.0) -> Floats:
        """When `what` was read, at least `over` seconds apart. Kept: the cores of a large node ask a thousand times."""
        return self.once(_steps, what, over)[0]

    def rate(self, what: str, subject: str = "node", *, over: float = 0.0, within: Span | None = None) -> Series:
        """How fast a counter rose between each look and the next, per second; `over` so many seconds at least.

        The part `within` a span costs no more than its length: twelve hours of 192 cores are asked for by seconds.
        A counter that fell to less than half was restarted, from zero. A smaller step back is jitter and counts as
        no rise: the kernel's idle and iowait times do go backwards by a tick (Documentation/filesystems/proc.rst).
        """
        counter = self.series(what, subject)
        times, steps, pace = self.once(_steps, what, over) if self.looks(what) else _stepped(_apart(counter.at, over))
        if len(times) < 2:
            return _empty(what, subject)
        if within is not None:
            first = max(int(np.searchsorted(times[:-1], within.start, side="right")) - 1, 0)
            last = max(int(np.searchsorted(times[:-1], within.end, side="right")), first + 1)
            times, steps = times[first : last + 1], steps[first:last]
        values, sources = _rises(counter.sampled(times)) / steps, counter.sources[-1:]
        found = Series(
            what=what, subject=subject, at=times[:-1], values=values, until=float(times[-1]), sources=sources, pace=pace
        )
        return found if within is None else found.between(within)


def _subjects(timeline: Timeline, what: str, kind: str) -> list[str]:
    return sorted((s for s in timeline._series.get(what, ()) if s.startswith(f"{kind}:" if kind else "")), key=_natural)


def _steps(timeline: Timeline, what: str, over: float) -> tuple[Floats, Floats, float]:
    looks = timeline.looks(what)
    return _stepped(_apart(np.unique(looks.at[looks.values > 0]), over))


def _stepped(times: Floats) -> tuple[Floats, Floats, float]:
    """The times, the seconds from each to the next, and what these mostly are."""
    return times, (steps := np.diff(times)), float(np.median(steps)) if len(steps) else 0.0


def _rises(held: Floats) -> Floats:
    """By how much a counter rose from each value to the next; NaN where it was not known."""
    rise: Floats = held[1:] - held[:-1]
    if rise.min() >= 0:  # so it is with nearly all: known throughout, and never fell
        return rise
    began = np.where(held[1:] < held[:-1] / 2, held[1:], np.where(np.isnan(rise), rise, 0.0))
    return np.where(rise >= 0, rise, began)


def _apart(times: Floats, over: float) -> Floats:
    """The first look of each stretch of `over` seconds; a little early counts, as looks are never quite on time."""
    if not over or not len(times):
        return times
    stretch = np.floor((times - times[0]) / over + 0.25)
    first: Floats = times[np.append(True, np.diff(stretch) > 0)]
    return first


def _empty(what: str, subject: str) -> Series:
    return Series(what=what, subject=subject, at=_NOTHING, values=_NOTHING, until=0.0, sources=("",))


def _natural(subject: str) -> tuple[str, int, str]:
    digits = subject.rpartition(":")[2]
    # Longer numbers are no numbers but hostile names, and Python refuses to read them.
    number = digits.isdecimal() and len(digits) < 20
    return (subject.removesuffix(digits), int(digits), "") if number else (subject, -1, subject)
