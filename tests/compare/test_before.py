"""What is found before events: the known cause, first and among noise; nothing where there is none; and its limits."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.compare.sick_node import T0, sick_node
from tests.nodes import node, read
from tests.profile.captures import capture

from zombiescope.compare.before import Comparison, _ranks, compare, events_of
from zombiescope.compare.measures import _means, of_series
from zombiescope.compare.quiet_time import CONTROLS, Event, Windows, recorded, windows
from zombiescope.compare.time_spent import Profile
from zombiescope.core import Span, UserError
from zombiescope.core.samples import Function, Who
from zombiescope.core.timeline import Series, Timeline
from zombiescope.profile.chosen import Chosen

MARKS = (310.0, 800.0, 1130.0, 1600.0, 2105.0)
S = 15.0


def events(times: object) -> list[Event]:
    return [Event(at=T0 + float(at), says="reset") for at in np.atleast_1d(times).tolist()]  # type: ignore[call-overload]


def subjects(found: Comparison) -> list[str]:
    return [rise.subject for rise in found.significant]


@pytest.mark.parametrize("seed", range(4))
def test_the_known_process_and_function_are_first_among_noise(seed: int) -> None:
    timeline, samples = sick_node(seed, MARKS)
    found = compare(timeline, samples, events(MARKS), S)
    assert subjects(found)[:2] == ["process:agent[4242]", "function:walk_all"]
    process, function = found.significant[:2]
    assert process.events == function.events == 5 and process.p == pytest.approx(1 / 2001)
    # Eight seconds of half a core within fifteen.
    assert process.before == pytest.approx(0.5 * 8 / 15, rel=0.3) and process.quiet < 0.02
    assert process.spreads > 10 and len(process.by_event) == 5
    assert function.note == "100% of it in agent[4242]"
    # Callers rose as much and are not told.
    assert not {"function:main", "function:run", "function:do_syscall_64", "function:memory_stat_show"} & set(
        subjects(found)
    )
    assert len(found.rises) <= 10 and found.compared > 300


def test_the_same_question_gets_the_same_answer() -> None:
    timeline, samples = sick_node(5, MARKS)
    first, again = (compare(timeline, samples, events(MARKS), S) for _ in range(2))
    assert first == again


def test_random_times_find_nothing_in_19_of_20_tries() -> None:
    wrong = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        if seed % 5 == 0:
            timeline, samples = sick_node(100 + seed, rng.uniform(100, 2300, 5).tolist())
        found = compare(timeline, samples, events(rng.uniform(60, 2390, rng.integers(3, 9))), S)
        wrong += [(seed, subjects(found))] if found.significant else []
    assert len(wrong) <= 1, wrong


def test_events_that_crowd_into_one_hour_do_not_accuse_what_drifts() -> None:
    """All events late, and a gauge that only ever climbs: higher before them than on the whole, but not than nearby."""
    at = T0 + np.arange(0.0, 2400)
    leak = Series(what="leak", subject="node", at=at, values=at - T0, until=float(at[-1]), sources=("/x",))
    found = compare(Timeline([leak]), None, events(np.arange(1500.0, 2300, 120)), S)
    assert len(found.events) == 7 and not found.significant


@pytest.mark.parametrize("marks", ([310.0], [310.0, 800.0], [310.0, 350.0, 390.0, 430.0, 470.0]))
def test_too_few_events_or_all_in_one_group_cannot_tell_but_show_what_rose(marks: list[float]) -> None:
    timeline, samples = sick_node(1, marks, burst=3.0)
    found = compare(timeline, samples, events(marks), S)
    assert not found.enough and not found.significant
    assert {"process:agent[4242]", "function:walk_all"} <= {rise.subject for rise in found.rises}


def test_nothing_to_look_before() -> None:
    timeline, samples = sick_node(1, ())
    found = compare(timeline, samples, [], S)
    assert not found.events and not found.rises and not found.enough


def test_a_series_that_rises_is_told_with_its_rate() -> None:
    at = np.arange(0.0, 1200)
    rng = np.random.default_rng(1)
    near = np.zeros(len(at), bool)
    for mark in (200, 400, 600, 800, 1000):
        near |= (at >= mark - 10) & (at < mark)
    pace = rng.poisson(20, len(at)) + np.where(near, 300, 0)
    others = [
        Series(
            what=f"x{it}", subject="node", at=T0 + at, values=rng.normal(size=len(at)), until=T0 + 1199, sources=("",)
        )
        for it in range(50)
    ]
    drops = Series(
        what="drops_total", subject="nic:eth0", at=T0 + at, values=np.cumsum(pace), until=T0 + 1199, sources=("/x",)
    )
    found = compare(Timeline([*others, drops]), None, events([200, 400, 600, 800, 1000]), 10.0)
    (rise,) = found.significant
    assert (rise.kind, rise.what, rise.subject, rise.unit) == ("series", "drops_total", "nic:eth0", "a second")
    assert rise.before == pytest.approx(320, rel=0.1) and rise.quiet == pytest.approx(20, rel=0.1)
    assert rise.ratio == pytest.approx(16, rel=0.2) and rise.events == 5


def test_a_sample_that_ends_a_gap_counts_where_the_gap_was() -> None:
    """Interrupts were off from before the event until after it: the sample comes too late to be in the window."""
    who, stack = Who(1, "walker"), (Function("flush", True),)
    late = capture([(101_500_000_000, 0, who, stack, 4_000_000_000)], unit="nanoseconds")
    chosen = Windows(
        seconds=10.0,
        starts=np.array([91.0, 80.0]),
        events=(Event(at=101.0, says=""),),
        controls=np.array([[1]]),
        notes=(),
    )
    measured = Profile(late, chosen).measured()
    process = next(place for place, it in enumerate(measured.measures) if it.kind == "process")
    assert measured.values[:, process].tolist() == pytest.approx([0.35, 0.0])


@settings(deadline=None, max_examples=60)
@given(
    rows=st.lists(
        st.tuples(
            st.integers(0, 60_000),
            st.integers(0, 2),
            st.builds(Who, st.integers(1, 3), st.sampled_from(["a", "b"])),
            st.lists(st.builds(Function, st.sampled_from("fgh"), st.booleans()), min_size=1, max_size=4).map(tuple),
            st.integers(1, 90_000_000),
        ),
        min_size=1,
        max_size=40,
    )
)
def test_times_of_windows_are_what_counting_gives(rows: list[tuple[int, int, Who, tuple[Function, ...], int]]) -> None:
    samples = capture([(at * 1_000_000, *rest) for at, *rest in rows], unit="nanoseconds")  # type: ignore[misc]
    chosen = Windows(
        seconds=10.0, starts=np.arange(0.0, 60, 10), events=(), controls=np.empty((0, 0), np.int64), notes=()
    )
    measured = Profile(samples, chosen).measured()
    for place, measure in enumerate(measured.measures):
        for window in range(6):
            inside = [row for row in rows if window * 10_000 <= row[0] < window * 10_000 + 10_000]
            if measure.kind == "core":
                mine = [row for row in inside if f"cpu:{row[1]}" == measure.subject]
            elif measure.kind == "function":
                wanted = samples.frames.functions[measure.place]
                mine = [
                    row for row in inside if (wanted in row[3] if measure.what == "total" else row[3][-1] == wanted)
                ]
            else:
                continue
            assert measured.values[window, place] == pytest.approx(sum(row[4] for row in mine) / 1e10)
    by_process = [place for place, it in enumerate(measured.measures) if it.kind == "process"]
    assert measured.values[:, by_process].sum() == pytest.approx(sum(row[4] for row in rows if row[0] < 60_000) / 1e10)
    assert Chosen().rows(samples).size == len(rows)


@given(st.lists(st.lists(st.integers(0, 3), min_size=3, max_size=3), min_size=1, max_size=12))
def test_ranks_are_those_of_a_sorted_list(values: list[list[int]]) -> None:
    ranks = _ranks(np.array(values, float))
    for column in range(3):
        ordered = sorted(row[column] for row in values)
        for row, rank in zip(values, ranks[:, column], strict=True):
            first, many = ordered.index(row[column]), ordered.count(row[column])
            assert rank == pytest.approx((first + many / 2) / len(values))


@given(st.lists(st.floats(0, 3000), max_size=12), st.floats(1, 60), st.booleans())
def test_quiet_windows_are_recorded_and_far_from_every_event(times: list[float], seconds: float, hole: bool) -> None:
    spans = [Span(T0, T0 + 1200), Span(T0 + 1500, T0 + 3000)] if hole else [Span(T0, T0 + 3000)]
    try:
        found = windows(events(times), spans, seconds)
    except UserError as error:
        assert "quiet windows" in str(error)
        return
    ends = found.starts + seconds
    for start, end in zip(found.starts.tolist(), ends.tolist(), strict=True):
        assert any(span.start - 1e-3 <= start and end <= span.end + 1e-3 for span in spans)
    for start, end in zip(found.starts[len(found.events) :], ends[len(found.events) :], strict=True):
        assert all(end <= T0 + at - 2 * seconds + 1e-3 or start >= T0 + at + seconds - 1e-3 for at in times)
    assert np.allclose(ends[: len(found.events)], [it.at for it in found.events])
    assert found.controls.shape == (len(found.events), min(CONTROLS, found.controls.shape[1]))
    assert not len(found.events) or (found.controls >= len(found.events)).all()


def test_a_burst_of_lines_is_one_event_and_an_early_one_is_left_out() -> None:
    found = windows(events([3, 500, 500.1, 505, 900]), [Span(T0, T0 + 1000)], 10.0)
    assert [it.at - T0 for it in found.events] == [500, 900]
    assert found.notes == (
        "5 events, some within 10 s of each other, count as 3",
        "1 of 3 events left out: the time before is not recorded",
    )


def test_where_there_is_no_quiet_time_it_is_said() -> None:
    with pytest.raises(UserError, match=r"only 2 quiet windows of 30 s .* give a smaller --seconds"):
        windows(events([100, 200, 300]), [Span(T0, T0 + 400)], 30.0)


def test_a_hole_in_a_recording_is_no_quiet_time() -> None:
    timeline = node([read("load", "node", 1.0, at) for at in (*range(100), *range(500, 600))])
    assert [(it.start - T0, it.end - T0) for it in recorded(timeline, timeline.span)] == [(0, 99), (500, 599)]


def test_means_of_counters_and_gauges() -> None:
    chosen = Windows(
        seconds=10.0, starts=T0 + np.array([0.0, 10, 20]), events=(), controls=np.empty((0, 0), np.int64), notes=()
    )
    at = T0 + np.arange(0.0, 31, 5)
    gauge = Series(what="load", subject="node", at=at, values=np.arange(7.0), until=T0 + 30, sources=("",))
    assert _means(gauge, chosen).tolist() == pytest.approx([0.5, 2.5, 4.5])
    fell = np.array([100.0, 110, 120, 5, 15, 14, 35])  # a new beginning, and a step back that is jitter
    counter = Series(what="x_total", subject="node", at=at, values=fell, until=T0 + 30, sources=("",))
    assert _means(counter, chosen).tolist() == pytest.approx([2.0, 1.5, 2.1])
    assert np.isnan(_means(replace(gauge, at=at + 15, until=T0 + 45), chosen)[:2]).all()


def test_happenings_and_our_own_costs_are_no_series() -> None:
    said = [
        read(what, subject, float(at % 7), at, text="line")
        for what, subject in (("kernel_log", "node"), ("core_gap_seconds", "cpu:0"), ("cgroup_id", "cgroup:/x"))
        for at in range(400)
    ]
    costs = [read("look_cpu_seconds", "probe:vmstat", at % 5, at) for at in range(400)]
    load = [read("load", "node", at % 3, at) for at in range(400)]
    timeline = node([*said, *costs, *load])
    chosen = windows(events([200]), [timeline.span], 5.0)
    assert [it.what for it in of_series(timeline, chosen).measures] == ["load"]


def test_events_by_sign_by_line_and_by_mistake() -> None:
    lines = [read("kernel_log", "node", 6, at, text=f"zslab mark {at}") for at in (10, 20)]
    reset = read("kernel_log", "node", 3, 30, text="ena 0000:00:05.0 ens5: Trigger reset is on")
    timeline = node([*lines, reset, read("kernel_log", "node", 6, 40, text="all quiet")])
    found, unseen = events_of(timeline, "mark [12]")
    assert [it.at - T0 for it in found] == [10, 20] and not unseen
    found, unseen = events_of(timeline, "driver_reset")
    assert [(it.at - T0, it.says.split()[0]) for it in found] == [(30, "nic:ens5")] and not unseen
    injected = [read("kernel_log", "node", 3, at, text=f"mark {at} (injected by zombiescope lab)") for at in (10, 20)]
    assert events_of(node(injected), "mark") == ([], "")
    assert len(events_of(node([*injected, read("lab_run", "node", 1, 0)]), "mark")[0]) == 2
    found, unseen = events_of(timeline, "saturated_core")
    assert not found and "nothing looked" in unseen
    assert events_of(Timeline(), "mark") == ([], "nothing looked for kernel_log")
    with pytest.raises(UserError, match="neither a sign nor a valid regex"):
        events_of(timeline, "mark [")
