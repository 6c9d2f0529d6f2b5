"""Series and Timeline against a step function in plain Python, value by value."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from zombiescope.core import Blind, Host, Reading, Span
from zombiescope.core.timeline import Series, Timeline
from zombiescope.members.rooms import load
from zombiescope.recorder.sampling import look
from zombiescope.recorder.tape import Tape

QUARTER = 0.25  # all times are whole quarters of a second, so that sums are exact


@dataclass(frozen=True)
class Steps:
    """What a series is meant to be: each value holds from its time to the next one's, the last to `until`."""

    points: tuple[tuple[float, float], ...]
    until: float

    def at(self, time: float) -> float:
        held = [value for start, value in self.points if start <= time <= self.until]
        return held[-1] if held else math.nan

    def stretches(self) -> list[tuple[float, float, float]]:
        ends = [*(start for start, _ in self.points[1:]), self.until][: len(self.points)]
        return [(start, end, value) for (start, value), end in zip(self.points, ends, strict=True)]

    def series(self) -> Series:
        times, values = zip(*self.points, strict=True) if self.points else ((), ())
        return Series(
            what="x",
            subject="node",
            at=np.array(times, dtype=float),
            values=np.array(values, dtype=float),
            until=self.until,
            sources=("/proc/x",),
        )


def quarters(least: int = 0, most: int = 80) -> st.SearchStrategy[float]:
    return st.integers(least, most).map(lambda number: number * QUARTER)


@st.composite
def steps(draw: st.DrawFn, least: int = 0, unknown: bool = True) -> Steps:
    times = sorted(draw(st.sets(quarters(), min_size=least, max_size=12)))
    values = st.integers(0, 5).map(float)
    some = st.one_of(values, st.just(math.nan)) if unknown else values
    points = tuple((time, draw(some)) for time in times)
    return Steps(points, (times[-1] if times else 0.0) + draw(quarters(0, 8)))


def same(one: float, other: float) -> bool:
    return (math.isnan(one) and math.isnan(other)) or one == pytest.approx(other)


MOMENTS = [number * QUARTER / 2 for number in range(-4, 200)]


@given(steps())
def test_sampled(truth: Steps) -> None:
    sampled = truth.series().sampled(np.array(MOMENTS))
    assert all(same(got, truth.at(time)) for got, time in zip(sampled, MOMENTS, strict=True))


@given(steps(), quarters(0, 100), quarters(0, 40))
def test_between(truth: Steps, start: float, length: float) -> None:
    span = Span(start, start + length)
    part = truth.series().between(span)
    for got, time in zip(part.sampled(np.array(MOMENTS)), MOMENTS, strict=True):
        assert same(got, truth.at(time) if span.holds(time) else math.nan)
    assert all(span.holds(at) for at in part.at)


@given(steps(), quarters(0, 100), quarters(0, 40))
def test_a_part_never_ends_before_it_begins(truth: Steps, start: float, length: float) -> None:
    """What had ended before the span began is not in it."""
    part = truth.series().between(Span(start, start + length))
    assert not len(part) or part.at[-1] <= part.until


@given(steps())
def test_mean(truth: Steps) -> None:
    known = [(end - start, value) for start, end, value in truth.stretches() if not math.isnan(value)]
    seconds = sum(length for length, _ in known)
    mean = sum(length * value for length, value in known) / seconds if seconds else math.nan
    assert same(truth.series().mean(), mean)


@given(steps(), st.integers(0, 6).map(float), quarters(0, 12), st.one_of(st.just(0.0), quarters(1, 12)))
def test_runs(truth: Steps, above: float, lasting: float, bridging: float) -> None:
    merged: list[tuple[float, float]] = []
    for start, end, value in truth.stretches():
        if value >= above:
            near = merged and start - merged[-1][1] <= bridging
            merged = [*merged[:-1], (merged[-1][0], end)] if near else [*merged, (start, end)]
    expected = [(start, end) for start, end in merged if end - start >= lasting]
    runs = truth.series().runs(above=above, lasting=lasting, bridging=bridging)
    assert [(run.span.start, run.span.end) for run in runs] == expected
    for run in runs:
        assert run.values[0] >= above and run.values[-1] >= above
        assert all(same(run.sampled(np.array([at]))[0], truth.at(float(at))) for at in run.at)


@given(st.lists(st.tuples(quarters(1, 8), st.integers(0, 40), st.sampled_from("rrrrrjn")), min_size=1, max_size=12))
def test_rate(moves: list[tuple[float, int, str]]) -> None:
    """A counter that rises (r), begins anew (n) or jitters back by a tick (j), looked at each time."""
    tape, now, count = Tape(), 0.0, 100.0
    rises: list[tuple[float, float]] = []
    note(tape, now, count)
    for pause, amount, kind in moves:
        before = count
        count = {"r": count + amount, "j": count - 1, "n": min(float(amount), math.floor(count / 2) - 1)}[kind]
        rises.append((now, {"r": amount, "j": 0.0, "n": count}[kind] / pause if count != before else 0.0))
        now += pause
        note(tape, now, count)
        if kind == "n":
            count = 100.0 + count
            now += QUARTER
            rises.append((now - QUARTER, 100.0 / QUARTER))
            note(tape, now, count)
    rate = tape.timeline().rate("x_total")
    assert [(float(at), float(value)) for at, value in zip(rate.at, rate.values, strict=True)] == rises
    assert rate.until == now


@given(steps(), quarters(0, 100), quarters(0, 40))
def test_the_rate_within_a_span_is_that_part_of_the_rate(truth: Steps, start: float, length: float) -> None:
    timeline, span = Timeline([truth.series()]), Span(start, start + length)
    what, subject = truth.series().what, truth.series().subject
    part, whole = timeline.rate(what, subject, within=span), timeline.rate(what, subject).between(span)
    assert np.array_equal(part.at, whole.at) and np.array_equal(part.values, whole.values, equal_nan=True)
    assert (part.until, part.pace) == (whole.until, whole.pace) or not len(whole)


def test_two_better_readings_end_a_period_also_where_it_is_mostly_read_slowly() -> None:
    """Twice a second while nothing happens, then four times: the slow pace bridges nothing there."""
    tape = Tape()
    busy = {0.25, 0.5, 0.75, 1.0, 1.75, 2.0, 2.25, 2.5}  # the quarters of a second before these, and not those between
    count = 0.0
    for at in [*np.arange(-20, 0.1, 0.5), *np.arange(0.25, 3.1, 0.25)]:
        count += 0.25 if at in busy else 0.0
        note(tape, float(at), count)
    runs = tape.timeline().rate("x_total").runs(above=0.9, lasting=0.5, bridging=0.3)
    assert [(it.span.start, it.span.end) for it in runs] == [(0.0, 1.0), (1.5, 2.5)]


@pytest.mark.parametrize("pace", [0.25, 1.0, 5.0])
def test_one_better_reading_splits_no_period_however_slowly_it_was_read(pace: float) -> None:
    """Ten readings, the fifth of them low, and 0.2 s that may be bridged at any pace."""
    tape, count = Tape(), 0.0
    for place in range(11):
        note(tape, place * pace, count)
        count += 0.0 if place == 4 else pace
    runs = tape.timeline().rate("x_total").runs(above=0.9, lasting=0.5, bridging=0.2)
    assert len(runs) == 1


def note(tape: Tape, at: float, value: float, *, kept: bool = True) -> None:
    if kept:
        tape.add(Reading(what="x_total", subject="node", value=value, at=at, source="/proc/x"))
    tape.look("probe", ("x_total",), at)


@given(st.lists(st.one_of(st.none(), st.integers(0, 3)), min_size=1, max_size=25), st.sampled_from([0.0, 1.0, 2.5]))
def test_a_tape_of_changes_gives_the_same_answers(looks: list[int | None], bridging: float) -> None:
    """None is a look in vain. One tape keeps every value, the other only what changed."""
    every, changes = Tape(), Tape()
    before: int | None = None
    for place, value in enumerate(looks):
        for tape in (every, changes):
            if value is None:
                tape.look("probe", ("x_total",), place, [Blind(what="x_total", source="/proc/x", why="gone")])
            else:
                note(tape, place, value, kept=tape is every or value != before)
        before = before if value is None else value
    one, two = every.timeline(), changes.timeline()
    times = np.array(MOMENTS)
    assert np.array_equal(one.series("x_total").sampled(times), two.series("x_total").sampled(times), equal_nan=True)
    for a, b in ((one.rate("x_total"), two.rate("x_total")), (one.looks("x_total"), two.looks("x_total"))):
        assert np.array_equal(a.at, b.at) and np.array_equal(a.values, b.values, equal_nan=True) and a.until == b.until
    assert same(one.series("x_total").mean(), two.series("x_total").mean())
    for above in (1.0, 2.0, 3.0):
        found = [
            [run.span for run in it.series("x_total").runs(above=above, lasting=1.0, bridging=bridging)]
            for it in (one, two)
        ]
        assert found[0] == found[1]
    seen = sum(value is not None for value in looks)
    for timeline in (one, two):
        assert timeline.looked("x_total", seen) and not timeline.looked("x_total", seen + 1)


def test_two_looks_of_a_live_machine_make_a_rate() -> None:
    """A probe reads a moment after its look began; the value still belongs to that look."""
    tape, probe = Tape(), load("probes", "proc_stat")
    for _ in range(2):
        look(Host(), "proc_stat", probe, tape)
    rate = tape.timeline().rate("context_switches_total")
    assert len(rate) == 1 and np.isfinite(rate.values).all()


@given(
    st.lists(st.tuples(quarters(), st.integers(0, 9), st.sampled_from(["/a", "/b"]), st.sampled_from(["", "t", "u"])))
)
def test_a_tape_gives_back_what_it_took_in_order_of_time(rows: list[tuple[float, int, str, str]]) -> None:
    tape = Tape(events=("x",))  # a value that holds would be written once
    taken = [Reading(what="x", subject="node", value=v, at=at, source=s, text=t) for at, v, s, t in rows]
    for reading in taken:
        tape.add(reading)
    series = tape.timeline().series("x")
    assert [series.reading(place) for place in range(len(series))] == sorted(taken, key=lambda it: it.at)


@given(st.sets(st.integers(0, 10**9), max_size=8), st.sets(st.text(max_size=5), max_size=8))
def test_natural_order(numbers: set[int], words: set[str]) -> None:
    tape = Tape()
    for subject in [*(f"cpu:{number}" for number in numbers), *(f"nic:{word}" for word in words), "node"]:
        tape.add(Reading(what="x", subject=subject, value=1, at=1, source="/proc/x"))
    timeline = tape.timeline()
    assert timeline.subjects("x", "cpu") == [f"cpu:{number}" for number in sorted(numbers)]
    assert set(timeline.subjects("x", "nic")) == {f"nic:{word}" for word in words}
    assert len(timeline.subjects("x")) == len(numbers) + len(words) + 1
    assert [reading.subject for reading in timeline.latest("x")] == timeline.subjects("x")


@pytest.mark.parametrize("digits", ["9" * 5000, "٣", "²", "-1", ""])
def test_any_subject_can_be_put_in_order(digits: str) -> None:
    tape = Tape()
    for subject in (f"cpu:{digits}", "cpu:1"):
        tape.add(Reading(what="x", subject=subject, value=1, at=1, source="/proc/x"))
    assert set(tape.timeline().subjects("x", "cpu")) == {f"cpu:{digits}", "cpu:1"}


def test_what_was_never_seen_is_empty_and_not_an_error() -> None:
    timeline = Timeline()
    assert timeline.whats() == [] and timeline.subjects("x") == [] and timeline.latest("x") == []
    assert len(timeline.series("x")) == len(timeline.rate("x")) == len(timeline.looks("x")) == 0
    assert not timeline.looked("x") and timeline.span == Span(0.0, 0.0)
    assert timeline.series("x").runs(above=1, lasting=0) == []
    assert math.isnan(timeline.series("x").mean())
    assert np.isnan(timeline.series("x").sampled(np.array([0.0, 1.0]))).all()


def test_a_value_does_not_outlive_the_last_look_that_saw_it() -> None:
    tape = Tape()
    note(tape, 1.0, 5)
    note(tape, 2.0, 5, kept=False)
    tape.look("probe", ("x_total",), 9.0, [Blind(what="x_total", source="/proc/x", why="gone")])
    assert tape.timeline().series("x_total").until == 2.0
    assert tape.timeline().span == Span(1.0, 9.0)
