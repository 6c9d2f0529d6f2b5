"""A head, settled: what probes fetched and sampled becomes the rows that they would have written themselves."""

from __future__ import annotations

import time
from functools import partial

import pytest
from tests.recorder.heads import AHEAD, META, SECOND, Head, records

from zombiescope.core import Blind, Host, Unreadable
from zombiescope.core.timeline import Timeline
from zombiescope.kernel.fetched import fetching
from zombiescope.members.rooms import healthy, load
from zombiescope.recorder.head import FETCHED, NAME, SAME, SAMPLE, HeadWriter
from zombiescope.recorder.layout import TROUBLE
from zombiescope.recorder.readings import ReadingRows
from zombiescope.recorder.sampling import seen
from zombiescope.recorder.segment import reading_batch
from zombiescope.recorder.settle import settled
from zombiescope.recorder.tape import Tape, probe_events

T0 = AHEAD // SECOND
STAT = """\
cpu  {0} 0 0 900 0 0 0 0 0 0
cpu0 {0} 0 0 900 0 0 0 0 0 0
ctxt 5
processes 6
procs_running 1
procs_blocked 0
"""


def timeline(head: bytes, **meta: object) -> Timeline:
    gives = {name: list(it.GIVES) for name, it in healthy("probes").items()}
    found = settled(head, {**META, "gives": gives, **meta})
    return found.timeline(gives, hz=100)


def shown(timeline: Timeline) -> dict[str, object]:
    """All that a sign could ask of its series and looks."""
    found: dict[str, object] = {}
    for what in timeline.whats():
        for subject in timeline.subjects(what):
            one = timeline.series(what, subject)
            found[f"{what} {subject}"] = (one.at.tolist(), one.values.tolist(), one.until, one.sources, dict(one.texts))
    for what in timeline.looked_for():
        one = timeline.looks(what)
        found[f"looks {what}"] = (one.at.tolist(), one.values.tolist(), dict(one.texts))
    return found


def test_every_probe_of_this_machine_gives_the_same_through_a_head() -> None:
    """Fetched where a probe declares files, else sampled; beside it a tape gets what the probe says at once."""
    parts: list[bytes] = []
    head, tape, host = HeadWriter(parts.extend), Tape(), Host()
    now, ahead = time.monotonic_ns(), time.time_ns() - time.monotonic_ns()
    head.clock(now, ahead)
    fetched = 0
    for name, probe in healthy("probes").items():
        if name in ("kmsg", "cgroup_events", "agents"):  # they watch, or take long
            continue
        at = time.monotonic_ns()
        unix = (at + ahead) // SECOND + (at + ahead) % SECOND / 1e9
        source = head.source({"probe": name}, at)
        if hasattr(probe, "FILES"):
            try:
                with fetching(host, probe.FILES) as fetch:
                    content = fetch()
            except Unreadable:
                continue
            readings, blind = seen(name, probe, partial(probe.readings, [(unix, content)]))
            head.fetched(source, at, content)
            fetched += 1
        else:
            readings, blind = seen(name, probe, partial(probe.read, host))
            rows = [(it.what, it.subject, it.value, it.at, it.source, it.text) for it in readings]
            unseen = [(it.what, it.source, it.why, it.subject) for it in blind]
            head.sample(source, at, taken=unix, readings=rows, blind=unseen, cost=0.0)
        for reading in readings:
            tape.add(reading)
        tape.look(name, probe.GIVES, unix, blind)
    head.flush()
    live, recorded = shown(tape.timeline()), shown(timeline(b"".join(parts)))
    assert fetched and len(live) > 100
    assert recorded == live


def test_looks_of_a_file_are_parsed_together_and_all_noted() -> None:
    head = Head()
    for tenth in range(100):
        head.fetched("proc_stat", tenth / 10, STAT.format(100 + tenth // 50).encode())
    found = timeline(head.bytes())
    user = found.series("cpu_user_seconds_total", "cpu:0")
    assert user.values.tolist() == [1.0, 1.01] and user.at.tolist() == [T0, T0 + 5]
    assert len(found.looks("cpu_user_seconds_total")) == 100 and found.looked("cpu_user_seconds_total", 100)


def test_a_value_that_holds_is_written_again_after_a_minute() -> None:
    head = Head()
    for minute in range(4):
        head.fetched("proc_stat", 60.0 * minute, STAT.format(100).encode())
    assert timeline(head.bytes()).series("cpu_user_seconds_total", "cpu:0").at.tolist() == [
        T0 + 60 * it for it in range(4)
    ]


def test_one_look_that_cannot_be_parsed_costs_only_itself() -> None:
    head = Head()
    for second, content in enumerate((STAT.format(100).encode(), b"cpu0 x\n", STAT.format(300).encode())):
        head.fetched("proc_stat", second, content)
    found = timeline(head.bytes())
    looks = found.looks("cpu_user_seconds_total")
    assert looks.values.tolist() == [1.0, 0.0, 1.0] and "cpu0 x" in looks.reading(1).text
    assert found.series("cpu_user_seconds_total", "cpu:0").values.tolist() == [1.0, 3.0]


def test_a_broken_parser_is_blind_for_its_probe_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def readings(_samples: object) -> None:
        raise ZeroDivisionError("no such luck")

    monkeypatch.setattr(load("probes", "proc_stat"), "readings", readings)
    head = Head()
    head.fetched("proc_stat", 1.0, STAT.format(1).encode())
    head.sample("meminfo", 1.0, [("memory_free_bytes", "node", 5.0, T0 + 1.0, "/proc/meminfo", "")])
    found = timeline(head.bytes())
    assert "no such luck" in found.looks("procs_running").latest.text and not found.looked("procs_running")
    assert found.series("memory_free_bytes").latest.value == 5.0


def test_a_probe_that_this_version_does_not_have_is_blind() -> None:
    head = Head()
    head.fetched("of_the_future", 1.0, b"what it may mean")
    found = settled(head.bytes(), {**META, "gives": {"of_the_future": ["warp_total"]}})
    looks = found.timeline({"of_the_future": ["warp_total"]}, hz=0).looks("warp_total")
    assert looks.values.tolist() == [0.0] and "of_the_future" in looks.latest.source


def test_samples_keep_their_times_texts_and_what_was_blind() -> None:
    head = Head()
    line = ("kernel_log", "node", 3.0, T0 + 0.25, "/dev/kmsg", "\udcffoom\x1b")
    head.sample("kmsg", 1.0, [line, line], cost=0.002)
    head.sample("kmsg", 2.0, blind=[("kernel_log", "/dev/kmsg", "not permitted", "")])
    found = timeline(head.bytes(), gives={"kmsg": ["kernel_log"]})
    log = found.series("kernel_log")
    assert log.at.tolist() == [T0 + 0.25] * 2, "events are kept, each of them"
    assert log.reading(0).text == "\\udcffoom\x1b"
    assert found.series("look_cpu_seconds", "probe:kmsg").latest.value == 0.002


def test_a_clock_that_is_set_moves_what_comes_after_it() -> None:
    head = Head()
    head.fetched("proc_stat", 1.0, STAT.format(100).encode())
    head.writer.clock(round(1.5 * SECOND), AHEAD + 3600 * SECOND)
    head.fetched("proc_stat", 2.0, STAT.format(200).encode())
    assert timeline(head.bytes()).looks("procs_running").at.tolist() == [T0 + 1, T0 + 3602]


@pytest.mark.parametrize(
    "sample",
    [
        b"[]",
        b"null",
        b"{",
        b'{"at": 1e99, "readings": [], "blind": [], "cost": 0}',
        b'{"at": "x", "readings": [], "blind": [], "cost": 0}',
        b'{"at": 1, "readings": [[1, 2]], "blind": [], "cost": 0}',
        b'{"at": 1, "readings": [["a", "b", 1, NaN, "c", "d"]], "blind": [], "cost": 0}',
        b'{"at": 1, "readings": [], "blind": ["abcd", {}], "cost": 0}',
        b"[" * 100_000,
    ],
)
def test_a_sample_that_is_none_is_damage_and_no_more(sample: bytes) -> None:
    head = Head()
    source = head.writer.source({"probe": "kmsg"}, 0)
    head.writer.put(5, source, 1, sample)
    head.fetched("proc_stat", 1.0, STAT.format(100).encode())
    found = timeline(head.bytes())
    assert found.looked("procs_running")
    assert found.series(TROUBLE).latest.text == "probe kmsg: a sample that is not understood"


def test_a_damaged_head_is_read_up_to_there_and_says_so() -> None:
    head = Head()
    head.fetched("proc_stat", 1.0, STAT.format(100).encode())
    before = len(head.bytes())
    head.fetched("proc_stat", 2.0, STAT.format(200).encode())
    head.fetched("proc_stat", 3.0, STAT.format(300).encode())
    content = bytearray(head.bytes())
    content[before + 40] ^= 1
    found = timeline(bytes(content))
    assert found.series("cpu_user_seconds_total", "cpu:0").values.tolist() == [1.0]
    assert found.series(TROUBLE).latest.text.startswith(f"damaged after {before:,} bytes")
    torn = timeline(bytes(content[: before + 40]))
    assert torn.looked("procs_running") and not len(torn.series(TROUBLE)), "a kill tears it: no damage"


@pytest.mark.parametrize("name", [b"[]", b"7", b"{}", b'{"probe": 1}', b'{"ring": -1}', b'{"ring": 1e9}', b"\xff", b""])
def test_a_source_that_is_not_understood_is_left_out(name: bytes) -> None:
    head = Head()
    head.writer.put(2, 9, 0, name)
    for kind in range(8):
        head.writer.put(kind, 9, 1, bytes(range(16)))
    assert settled(head.bytes(), META).table("series").num_rows == 0


def test_rows_say_what_could_be_read_from_each_segment_s_beginning() -> None:
    """Else what was not read in the segment before would hold forever."""
    rows = ReadingRows()
    rows.look("p", ("a", "b"), 1.0, [Blind(what="a", source="/proc/a", why="gone")])
    rows.begin()
    rows.look("p", ("a", "b"), 2.0)
    rows.look("p", ("a", "b"), 3.0)
    written = reading_batch(rows.of("series")).to_pylist()
    assert {(it["what"], it["subject"], it["value"]) for it in written if it["at"] == 2 * SECOND} == {
        ("looked", "probe:p", 1.0),
        ("unseen", "a", 0.0),
        ("unseen", "b", 0.0),
    }
    assert sum(it["at"] == 3 * SECOND for it in written) == 1


def test_the_same_is_the_same_as_the_last_record_of_its_source_fetched_or_sampled() -> None:
    """A probe that fetches says in a sample why it could not."""
    head, blind = Head(), [("procs_running", "/proc/stat", "gone", "")]
    for at, content in enumerate([STAT.format(1), STAT.format(1), None, None, STAT.format(1), STAT.format(1), None]):
        if content is None:
            head.sample("proc_stat", at, blind=blind)
        else:
            head.fetched("proc_stat", at, content.encode())
    kinds = [it.kind for it in records(head.bytes()) if it.kind > NAME]
    assert kinds == [FETCHED, SAME, SAMPLE, SAME, FETCHED, SAME, SAMPLE]
    looks = timeline(head.bytes()).looks("procs_running")
    assert (looks.at - T0).tolist() == [0, 1, 2, 3, 4, 5, 6]
    assert looks.values.tolist() == [1, 1, 0, 0, 1, 1, 0]


def test_a_sample_without_news_is_a_look_and_is_blind_to_what_it_was_blind_to() -> None:
    head, blind = Head(), [("load5", "/proc/loadavg", "gone", "")]
    news = [("load1", "node", 3.0, T0 + 0.0, "/proc/loadavg", "")]
    for at in range(4):
        head.sample("loadavg", at, readings=() if at else news, blind=blind if at < 3 else [])
    found = timeline(head.bytes())
    assert found.series("load1").until == T0 + 3, "the value holds"
    assert found.looks("load1").values.tolist() == [1, 1, 1, 1]
    assert found.looks("load5").values.tolist() == [0, 0, 0, 1]


def test_events_are_those_of_the_meta_or_of_the_probes() -> None:
    assert "kernel_log" in probe_events()
    head = Head()
    for _ in range(3):
        head.sample("kmsg", 1.0, [("a", "node", 1.0, T0 + 1.0, "/a", "")])
    assert settled(head.bytes(), {**META, "events": ["a"]}).table("events").num_rows == 3
    assert settled(head.bytes(), META).table("events").num_rows == 0
