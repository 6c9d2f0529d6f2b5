"""What capture writes into a head: bytes as they were fetched, readings where they changed, rings as they were."""

from __future__ import annotations

import json
import time
from typing import Any

from tests.recorder.heads import records

from zombiescope.core import Blind, Reading
from zombiescope.kernel.perf_open import Event
from zombiescope.kernel.perf_rings import Drained
from zombiescope.recorder.changes import MINUTE, Changes
from zombiescope.recorder.head import CLOCK, FETCHED, LOST, NAME, RING, SAME, SAMPLE, HeadSink
from zombiescope.recorder.sampling import Fetched, Sample

T0 = float(int(time.time()))
EVENT = Event(name="cpu-clock", hz=49, kernel=True, user=True, cgroup=True)


def reading(value: float, at: float, text: str = "", what: str = "load1") -> Reading:
    return Reading(what=what, subject="node", value=value, at=T0 + at, source="/proc/loadavg", text=text)


def samples(head: bytes) -> list[dict[str, Any]]:
    return [json.loads(bytes(it.content)) for it in records(head) if it.kind == SAMPLE]


def sources(head: bytes) -> list[dict[str, Any]]:
    return [json.loads(bytes(it.content)) for it in records(head) if it.kind == NAME]


def test_a_value_is_written_when_it_or_its_text_changed_or_a_minute_passed() -> None:
    parts: list[bytes] = []
    sink = HeadSink(parts.extend, events=("kernel_log",))
    for at, value, text in ((0, 1, "a"), (5, 1, "a"), (10, 1, "b"), (15, 2, "b"), (20, 2, "b"), (15 + MINUTE, 2, "b")):
        sink.sample("loadavg", Sample(T0 + at, (reading(value, at, text),), (), 0.001))
    sink.flush()
    assert [len(it["readings"]) for it in samples(parts[0])] == [1, 1, 1, 1]
    kinds = [it.kind for it in records(parts[0])]
    assert kinds == [CLOCK, NAME, SAMPLE, SAME, SAMPLE, SAMPLE, SAME, SAMPLE], "without news it takes 24 bytes"
    assert [it["at"] - T0 for it in samples(parts[0])] == [0, 10, 15, 15 + MINUTE], "every sample has its time"
    ahead = next(int.from_bytes(it.content, "little") for it in records(parts[0]) if it.kind == CLOCK)
    same = [round((it.at + ahead) / 1e9 - T0, 3) for it in records(parts[0]) if it.kind == SAME]
    assert same == [5, 20], "so has one without news"
    sink.begin(parts.extend)
    sink.sample("loadavg", Sample(T0 + 99, (reading(2, 99, "b"),), (), 0.001))
    for _ in range(2):
        sink.sample("kmsg", Sample(T0 + 99, (reading(1, 99, "again", "kernel_log"),), (), 0.001))
    sink.flush()
    assert [len(it["readings"]) for it in samples(parts[1])] == [1, 1, 1], "a new head is whole, an event always kept"


def test_blindness_is_written_with_its_reason() -> None:
    parts: list[bytes] = []
    sink = HeadSink(parts.extend)
    why = Blind(what="load1", source="/proc/loadavg", why="caf\udce9 not permitted", subject="node")
    sink.sample("loadavg", Sample(T0, (), (why,), 0.0))
    sink.flush()
    assert samples(parts[0])[0]["blind"] == [["load1", "/proc/loadavg", "caf\udce9 not permitted", "node"]]


def test_files_are_bytes_and_the_same_bytes_are_not_written_again() -> None:
    parts: list[bytes] = []
    sink = HeadSink(parts.extend)
    for at, content in enumerate((b"cpu 1\n", b"cpu 1\n", b"cpu \xff\n")):
        sink.fetched("proc_stat", Fetched(at, content, 0.0))
    sink.flush()
    found = [(it.kind, bytes(it.content), it.at) for it in records(parts[0]) if it.kind in (FETCHED, SAME)]
    assert found == [(FETCHED, b"cpu 1\n", 0), (SAME, b"", 1), (FETCHED, b"cpu \xff\n", 2)]
    assert sources(parts[0]) == [{"probe": "proc_stat"}]
    assert next(records(parts[0])).kind == CLOCK, "before anything that has a time"


def test_a_ring_says_how_it_is_to_be_read_and_what_was_lost() -> None:
    parts: list[bytes] = []
    sink = HeadSink(parts.extend)
    sink.drained(EVENT, [Drained(3, b"12345678", 7, None), Drained(0, b"", 0, None)])
    slower = Event(name="cpu-clock", hz=12, kernel=True, user=False, cgroup=True)
    sink.drained(slower, [Drained(3, b"abcdefgh", 0, None)])
    sink.flush()
    rings = [it for it in sources(parts[0]) if it["ring"] == 3]
    assert [(it["hz"], it["user"], it["cgroup"], it["event"]) for it in rings] == [
        (49, True, True, "cpu-clock"),
        (12, False, True, "cpu-clock"),
    ]
    kinds = [(it.kind, bytes(it.content)) for it in records(parts[0]) if it.kind in (RING, LOST)]
    assert kinds == [(RING, b"12345678"), (LOST, (7).to_bytes(8, "little")), (RING, b"abcdefgh")]
    assert sink.ring_bytes == 16


def test_what_was_written_a_minute_ago_is_forgotten_and_changes_nothing_in_the_head() -> None:
    def written(*, forgets: bool) -> list[bool]:
        changes, said = Changes(), []
        for second in range(0, 200, 5):
            for subject in ("node", f"process:true[{second}]"):
                said.append(changes.is_new(Reading(what="x", subject=subject, value=1, at=second, source="s")))
            if forgets:
                changes.forget(second)
                assert len(changes) <= 14
        return said

    assert written(forgets=True) == written(forgets=False)
