"""A part of a recording begins with what held then: what the last look of each probe before it had read."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.recorder.journal import Journal
from tests.recorder.test_replay import CLOCK, T0, reading

from zombiescope.core import Blind, Span
from zombiescope.core.timeline import Timeline
from zombiescope.recorder.before import PAST
from zombiescope.recorder.replay import opened

GIVES = {"often": ["load", "ticks_total"], "seldom": ["size"], "log": ["kernel_log"]}
META = {"node": "n", "kernel": "6.18", "gives": GIVES, "logs": ["kernel_log"]}
LONG = 1500  # seconds


def recorded(folder: Path, values: list[int], pace: int = 5, rare: int = 600) -> list[tuple[float, float]]:
    """A probe that reads values in turn, one that reads the same each ten minutes, and a log; the values by time."""
    disk, said = Journal(str(folder), META, events=("kernel_log",), monotonic=CLOCK), []
    for second in range(0, LONG, pace):
        value = values[second // pace % len(values)]
        said.append((T0 + second, float(value)))
        disk.add(reading("load", "node", value, second))
        disk.add(reading("ticks_total", "node", second, second))
        disk.look("often", GIVES["often"], T0 + second)
        if second % rare == 0:
            disk.add(reading("size", "node", 7, second))
            disk.look("seldom", GIVES["seldom"], T0 + second)
        if second % 100 == 0:
            disk.add(reading("kernel_log", "node", 6, second + 1, text=f"line {second}"))
        disk.look("log", GIVES["log"], T0 + second)
        disk.flush(CLOCK.at(second))
    disk.close()
    return said


def part(folder: Path, start: float, end: float) -> Timeline:
    return opened(str(folder)).timeline(Span(T0 + start, T0 + end))


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(st.integers(0, 2), min_size=1, max_size=40),
    st.lists(st.tuples(st.floats(0, LONG - 30), st.floats(11, 300)), min_size=1, max_size=8),
)
def test_what_held_when_a_part_began_is_in_it(
    tmp_path_factory: pytest.TempPathFactory, values: list[int], parts: list[tuple[float, float]]
) -> None:
    folder = tmp_path_factory.mktemp("rec")
    said = recorded(folder, values)
    recording = opened(str(folder))
    for start, length in parts:
        span = Span(T0 + start, T0 + start + length)
        timeline = recording.timeline(span)
        load, looks = timeline.series("load"), timeline.looks("load")
        inside = [(at, value) for at, value in said if span.start < at <= span.end]
        before = [it for it in said if it[0] <= span.start][-1:]
        assert looks.at.tolist() == [at for at, _ in before + inside]
        assert load.sampled(looks.at).tolist() == [value for _, value in before + inside]
        assert timeline.rate("ticks_total").values == pytest.approx(1.0), (
            "by looks that were made, not by the part's edge"
        )
        assert timeline.series("size").latest.value == 7, "read up to ten minutes before"
        assert timeline.span.start == max(span.start, before[0][0]) and timeline.span.end <= span.end


def test_what_was_gone_before_a_part_began_is_not_in_it(tmp_path: Path) -> None:
    disk = Journal(str(tmp_path), META, events=("kernel_log",), monotonic=CLOCK)
    for second in range(0, 300, 5):
        if second < 120:
            disk.add(reading("load", "process:gone", 1, second))
        disk.add(reading("load", "process:there", 1, second))
        disk.look("often", GIVES["often"], T0 + second)
        disk.flush(CLOCK.at(second))
    disk.close()
    assert part(tmp_path, 110, 130).subjects("load") == ["process:gone", "process:there"]
    assert part(tmp_path, 250, 270).subjects("load") == ["process:there"]


def test_a_probe_that_was_blind_when_a_part_began_is_blind_in_it(tmp_path: Path) -> None:
    gone = Blind(what="size", source="/proc/size", why="gone")
    disk = Journal(str(tmp_path), META, events=("kernel_log",), monotonic=CLOCK)
    for second in range(0, 300, 5):
        disk.look("often", GIVES["often"], T0 + second)
        if not second:
            disk.look("seldom", GIVES["seldom"], T0, (gone,))
        disk.flush(CLOCK.at(second))
    disk.close()
    looks = part(tmp_path, 200, 220).looks("size")
    assert looks.values.tolist() == [0] and looks.latest.text == "gone"


def test_a_part_has_the_log_of_the_minutes_before_it_as_a_look_has(tmp_path: Path) -> None:
    recorded(tmp_path, [1])
    lines = part(tmp_path, 1200, 1230).series("kernel_log")
    assert [lines.texts[it] for it in range(len(lines))] == [f"line {it}" for it in range(600, 1201, 100)]
    assert lines.at[0] > T0 + 1200 - PAST


def test_the_recorders_own_counters_count_from_where_a_part_begins(tmp_path: Path) -> None:
    recorded(tmp_path, [1])
    assert part(tmp_path, 602, 632).counted("ticks_total").value == 30
    assert opened(str(tmp_path)).timeline().counted("ticks_total").value == LONG - 5
