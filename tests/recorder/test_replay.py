"""What goes into a journal comes out as the same timeline: changes only on disk, every answer the same."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.recorder.journal import Journal

from zombiescope.core import Blind, Reading, Span, UserError
from zombiescope.core.timeline import Timeline
from zombiescope.recorder.meta import is_recording
from zombiescope.recorder.replay import opened
from zombiescope.recorder.tape import Tape

T0 = 1_794_000_000.0
META = {"node": "n", "kernel": "6.18", "gives": {"stat": ["ticks_total", "load"], "log": ["kernel_log"]}}


@dataclass
class Clock:
    """Both clocks of a machine. The wall clock can be set; the other one only goes on."""

    passed: float = 0.0
    set_by: float = 0.0

    def __call__(self) -> float:
        return self.passed

    def at(self, second: float) -> float:
        """It is now so many seconds after the beginning: the wall clock."""
        self.passed = second
        return T0 + second + self.set_by


CLOCK = Clock()  # of journals that are only written, one at a time


def journal(folder: Path, clock: Clock = CLOCK) -> Journal:
    return Journal(str(folder), META, events=("kernel_log",), monotonic=clock)


def reading(what: str, subject: str, value: float, at: float, text: str = "") -> Reading:
    return Reading(what=what, subject=subject, value=value, at=T0 + at, source=f"/proc/{what}", text=text)


GIVES = ["ticks_total", "load"]


@dataclass(frozen=True)
class Look:
    """What a probe gave at one time, and what it could not read of the rest."""

    after: float  # seconds since the one before it
    ticks: tuple[float, float]
    load: float
    text: str
    blind: tuple[Blind, ...]


def feed(sinks: list[Tape | Journal], looks: list[Look], clock: Clock = CLOCK) -> None:
    second = 0.0
    for look in looks:
        second += look.after
        missed = {it.what for it in look.blind if not it.subject}
        for sink in sinks:
            if "ticks_total" not in missed:
                for cpu, value in enumerate(look.ticks):
                    sink.add(reading("ticks_total", f"cpu:{cpu}", value, second))
            if "load" not in missed:
                sink.add(reading("load", "node", look.load, second, text=look.text))
            sink.look("stat", GIVES, T0 + second, look.blind)
            if isinstance(sink, Journal):
                sink.flush(clock.at(second))


def same(one: Timeline, other: Timeline) -> None:
    assert one.span == other.span
    for what in GIVES:
        assert one.subjects(what) == other.subjects(what)
        assert one.looked(what) == other.looked(what)
        looks = one.looks(what)
        assert [looks.reading(i) for i in range(len(looks))] == [
            other.looks(what).reading(i) for i in range(len(other.looks(what)))
        ]
        for subject in one.subjects(what):
            mine, theirs = one.rate(what, subject), other.rate(what, subject)
            assert np.allclose(mine.at, theirs.at) and np.allclose(mine.values, theirs.values, equal_nan=True)
            held = [it.series(what, subject) for it in (one, other)]
            assert held[0].until == pytest.approx(held[1].until) and held[0].latest.value == held[1].latest.value
            runs = [[(round(run.at[0], 6), round(run.until, 6)) for run in it.runs(above=2, lasting=1)] for it in held]
            assert runs[0] == runs[1]
            for at in looks.at[looks.values > 0].tolist():
                texts = [it.reading(int(np.searchsorted(it.at, at + 1e-6)) - 1).text for it in held if it.at[0] <= at]
                assert len(set(texts)) <= 1, "the kernel's words are those of the time"


BLIND = st.builds(
    Blind,
    what=st.sampled_from(GIVES),
    source=st.sampled_from(["/proc/stat", "/proc/loadavg"]),
    why=st.sampled_from(["gone", "permission denied"]),
    subject=st.sampled_from(["", "cpu:1"]),
)
LOOK = st.builds(
    Look,
    after=st.sampled_from([1.0, 1.0, 70.0, 130.0]),  # also slower than a segment
    ticks=st.tuples(*[st.sampled_from([0.0, 1.0, 2.0, 3.0])] * 2),
    load=st.sampled_from([0.0, 1.0, 5.0]),
    text=st.sampled_from(["", "words", "other words"]),
    blind=st.lists(BLIND, max_size=2).map(tuple)
    | st.sampled_from([tuple(Blind(what=it, source="/proc/stat", why="gone") for it in GIVES)]),
)


@settings(deadline=None, max_examples=60)
@given(looks=st.lists(LOOK, min_size=1, max_size=12))
def test_a_journal_answers_as_a_tape_does(tmp_path_factory: pytest.TempPathFactory, looks: list[Look]) -> None:
    folder = tmp_path_factory.mktemp("rec") / "r"
    tape, disk = Tape(), journal(folder)
    feed([tape, disk], looks)
    disk.close()
    same(tape.timeline(), opened(str(folder)).timeline())


def test_a_slow_probe_that_was_blind_sees_again(tmp_path: Path) -> None:
    """Its next sample is in another segment than the one that says it was blind."""
    gone = Blind(what="load", source="/proc/loadavg", why="gone")
    looks = [Look(300.0, (1.0, 1.0), 1.0, "", (gone,) if turn == 1 else ()) for turn in range(4)]
    disk = journal(tmp_path)
    feed([disk], looks)
    disk.close()
    timeline = opened(str(tmp_path)).timeline()
    assert timeline.looks("load").values.tolist() == [1, 0, 1, 1]
    part = opened(str(tmp_path)).timeline(Span(T0 + 550, T0 + 700))
    assert part.looks("load").values.tolist() == [1, 0] and part.looks("load").latest.text == "gone"


def test_a_part_of_a_segment_knows_what_was_blind_before_it_began(tmp_path: Path) -> None:
    gone = Blind(what="load", source="/proc/loadavg", why="gone")
    disk = journal(tmp_path)
    feed([disk], [Look(10.0, (1.0, 1.0), 1.0, "", (gone,)) for _ in range(9)])
    disk.close()
    assert opened(str(tmp_path)).timeline(Span(T0 + 50, T0 + 70)).looks("load").values.tolist() == [0, 0, 0]


def test_of_a_time_that_was_recorded_twice_the_second_holds_and_no_rate_is_made_up(tmp_path: Path) -> None:
    clock = Clock()
    disk = journal(tmp_path, clock=clock)
    for second in range(0, 600, 10):
        if second == 300:
            clock.set_by = -65.0
        at = clock.at(second)
        disk.add(Reading(what="ticks_total", subject="node", value=1000 + 7.0 * second, at=at, source="/proc/stat"))
        disk.look("stat", GIVES, at)
        disk.flush(at)
    disk.close()
    rate = opened(str(tmp_path)).timeline().rate("ticks_total")
    known = rate.values[~np.isnan(rate.values)]
    assert len(known) > 40 and known == pytest.approx(7.0)


@pytest.mark.parametrize("step", [3600.0, -3600.0, -86_400.0 * 365])
def test_a_clock_that_is_set_neither_loses_nor_misfiles(tmp_path: Path, step: float) -> None:
    clock = Clock()
    disk = journal(tmp_path, clock)
    written = []
    for second in range(0, 1500, 10):
        if second == 700:
            clock.set_by = step
        at = clock.at(second)
        disk.add(Reading(what="load", subject="node", value=second, at=at, source="/proc/loadavg"))
        disk.look("stat", GIVES, at)
        disk.flush(at)
        written.append((at, float(second)))
    disk.close()
    recording = opened(str(tmp_path))
    assert len(recording.segments) == 12 == len(set(recording.segments)), "one each two minutes, whatever the clock"
    assert recording.segments == sorted(recording.segments)
    loads = recording.timeline().series("load")
    assert list(zip(loads.at.tolist(), loads.values.tolist(), strict=True)) == sorted(written)
    assert recording.span == Span(min(written)[0], max(written)[0])
    for start in (T0 + 100, T0 + 800 + step):
        part = recording.timeline(Span(start, start + 100)).series("load")
        assert part.values.tolist() == [value for at, value in sorted(written) if start <= at <= start + 100]


def test_each_segment_stands_alone_and_a_span_reads_only_its_own(tmp_path: Path) -> None:
    disk = journal(tmp_path)
    for second in range(0, 600, 10):
        disk.add(reading("load", "node", 7, second))  # never changes: written at the start of each segment all the same
        disk.look("stat", GIVES, T0 + second)
        disk.flush(CLOCK.at(second))
    disk.close()
    recording = opened(str(tmp_path))
    assert len(recording.segments) == 5
    part = recording.timeline(Span(T0 + 250, T0 + 300))
    assert part.series("load").latest.value == 7
    assert part.span.start >= T0 + 250 and part.span.end <= T0 + 300
    assert recording.span == Span(T0, T0 + 590)


def test_events_are_all_kept_and_old_ones_do_not_stretch_the_span(tmp_path: Path) -> None:
    disk = journal(tmp_path)
    for place in range(23):
        disk.add(reading("kernel_log", "node", 6, -60, text=f"same value, other line {place} \udcff"))
    disk.look("log", ["kernel_log"], T0)
    disk.flush(CLOCK.at(0))
    disk.close()
    timeline = opened(str(tmp_path)).timeline()
    lines = timeline.series("kernel_log")
    assert len(lines) == 23 and lines.first.text == "same value, other line 0 \\udcff"
    assert timeline.span == Span(T0, T0)


@pytest.fixture
def torn(tmp_path: Path) -> Iterator[tuple[Path, Journal]]:
    disk = journal(tmp_path)
    for second in range(10):
        disk.add(reading("load", "node", second, second))
        disk.look("stat", GIVES, T0 + second)
        disk.flush(CLOCK.at(second))
    (head,) = tmp_path.glob("*/series.head.arrows")
    yield head, disk
    disk.close()


def test_a_torn_tail_is_read_up_to_the_last_whole_batch(torn: tuple[Path, Journal]) -> None:
    head, _ = torn
    whole = head.read_bytes()
    seen = set()
    for cut in range(0, len(whole), 97):
        head.write_bytes(whole[:cut])
        loads = opened(str(head.parent.parent)).timeline().series("load")
        assert list(loads.values) == list(range(len(loads)))
        seen.add(len(loads))
    assert seen >= set(range(10)), "every whole batch before the tear is there"


def test_a_damaged_segment_costs_no_other_and_is_told(tmp_path: Path) -> None:
    disk = journal(tmp_path)
    for second in range(0, 500, 10):
        disk.add(reading("load", "node", second, second))
        disk.flush(CLOCK.at(second))
    disk.close()
    files = sorted(tmp_path.glob("*/series.arrows"))
    assert len(files) == 4
    content = bytearray(files[2].read_bytes())
    content[100:400] = os.urandom(300)
    files[2].write_bytes(content)
    recording = opened(str(tmp_path))
    loads = recording.timeline().series("load")
    assert len(loads) >= 36 and loads.latest.value == 490
    assert any(str(files[2]) in trouble for trouble in recording.damage)


@pytest.mark.parametrize("content", ["", "{}", "[]", '{"format": 99}', "\x00", '{"format": 1'])
def test_a_strange_meta_is_told_in_one_line(content: str, tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text(content)
    assert is_recording(str(tmp_path))
    with pytest.raises(UserError, match=r"meta\.json"):
        opened(str(tmp_path))


def test_pyarrow_alone_reads_it(tmp_path: Path) -> None:
    disk = journal(tmp_path)
    feed([disk], [Look(1.0 if second else 0.0, (float(second), 2.0), 1.0, "", ()) for second in range(10)])
    (head,) = tmp_path.glob("*/series.head.arrows")
    with head.open("rb") as file:
        rows = pa.ipc.open_stream(file).read_all().to_pylist()
    ticks = [(row["subject"], row["value"]) for row in rows if row["what"] == "ticks_total"]
    assert ticks == [("cpu:0", 0.0), ("cpu:1", 2.0), *(("cpu:0", float(second)) for second in range(1, 10))]
    disk.close()
    assert opened(str(tmp_path)).table("series").num_rows == len(rows)
    assert json.loads((tmp_path / "meta.json").read_text())["format"] == 1
