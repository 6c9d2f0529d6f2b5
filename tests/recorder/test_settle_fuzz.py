"""Heads of strangers: whatever is in them, settle ends in time, within its memory, and with tables."""

from __future__ import annotations

import json
import random
import time
from pathlib import Path

import pytest
from tests.fuzzing import SLOWEST_SECONDS, damaged
from tests.recorder.heads import META, Head, exited, forked, mapped, named, new_cgroup, ran, records, throttled, whole

from zombiescope.core import UserError
from zombiescope.recorder import raw_heads
from zombiescope.recorder.head import MAGIC, NAME, HeadWriter
from zombiescope.recorder.layout import KINDS
from zombiescope.recorder.replay import opened
from zombiescope.recorder.settle import settled

CODE = 0x55D000000000
STAT = b"cpu  1 0 0 9 0 0 0 0\ncpu0 1 0 0 9 0 0 0 0\nctxt 5\nprocesses 6\nprocs_running 1\nprocs_blocked 0\n"


def small() -> bytes:
    head = Head()
    for second in range(1, 4):
        head.fetched("proc_stat", second, STAT.replace(b"9", str(second).encode()))
        head.fetched("proc_stat", second + 0.5, STAT.replace(b"9", str(second).encode()))
        head.sample("kmsg", second, [("kernel_log", "node", 3.0, 1_794_000_000.0 + second, "/dev/kmsg", "text")])
        begun = [
            forked(7, 1, second - 0.9),
            named(7, second - 0.8, "x", execed=True),
            mapped(7, second - 0.8, CODE, "/x"),
        ]
        ticks = [ran(7, second - 0.7 + it / 100, CODE + it, kernel=[1 << 63 | it], cgroup=5) for it in range(9)]
        head.ring(0, second, *begun, *ticks, exited(7, second - 0.1), throttled(0, second - 0.2))
        head.ring(1, second, new_cgroup(5, "/a", second - 0.9), ran(7, second - 0.5, CODE, cpu=1))
        head.lost(1, second, 3)
        head.sample("stacks", second, blind=[("samples_total", "perf", "why", "node")])
    return head.bytes()


def numbers(changed: bytearray, at: int, random_: random.Random) -> None:
    """Lengths, kinds, counts: a word becomes one that is tempting."""
    at &= ~7
    word = random_.choice((0, 1, 7, 8, 1 << 16, 1 << 31, (1 << 32) - 1, 1 << 63, (1 << 64) - 1, (1 << 64) - 512))
    changed[at : at + 8] = word.to_bytes(8, "little")[: len(changed) - at]


@pytest.mark.parametrize("seed", range(8))
def test_damaged_contents_are_settled_as_far_as_they_can_be(seed: int) -> None:
    """Each with its crc, as a stranger would write it."""
    drawn = random.Random(seed)
    good = list(records(small()))
    for _ in range(40):
        parts: list[bytes] = []
        writer = HeadWriter(parts.extend)
        for it in good:
            hurt = drawn.random() < 0.15
            content = damaged(bytes(it.content), drawn, numbers) if hurt else bytes(it.content)
            at = drawn.choice((it.at, 0, (1 << 64) - 1)) if hurt else it.at
            writer.put(drawn.randrange(9) if drawn.random() < 0.03 else it.kind, it.source, at, content)
        writer.flush()
        started = time.process_time()
        found = settled(b"".join(parts), META)
        tables = found.tables()
        assert time.process_time() - started < SLOWEST_SECONDS
        assert set(tables) == set(KINDS)
        known = set(tables["stacks"]["stack"].to_pylist())
        assert set(tables["samples"]["stack"].to_pylist()) <= known
        for table in tables.values():
            table.validate(full=True)


def test_cut_anywhere_it_is_a_head_up_to_there() -> None:
    head = small()
    for end in range(0, len(head), 97):
        cut = settled(head[:end], META)
        assert not cut.damage or end < len(MAGIC)
        assert whole(head[:end]) <= end
        cut.tables()


def test_bytes_that_were_changed_end_it_there() -> None:
    head, drawn = small(), random.Random(1)
    for _ in range(60):
        settled(damaged(head, drawn, numbers), META).tables()


def test_a_huge_length_is_not_allocated() -> None:
    head = bytearray(small())
    head[len(MAGIC) + 4 : len(MAGIC) + 8] = b"\xff\xff\xff\xff"
    assert settled(bytes(head), META).damage == [f"damaged after {len(MAGIC)} bytes: a record of 4,294,967,295 bytes"]


def test_a_recording_with_a_head_that_is_too_large_or_strange_is_refused_or_noted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "meta.json").write_text(json.dumps(META))
    (tmp_path / "1794000000").mkdir()
    (tmp_path / "1794000000" / "head").write_bytes(b"not a head at all")
    recording = opened(str(tmp_path))
    assert recording.table("series").num_rows == 0
    (damage,) = recording.damage
    assert "not a head" in damage
    monkeypatch.setattr(raw_heads, "MOST_BYTES", 8)
    with pytest.raises(UserError, match="refused"):
        opened(str(tmp_path)).timeline()


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {"hz": None, "gives": {}, "events": 7},
        {"events": [1, None], "boot_id": 5},
        {"events": {"a": 1}, "boot_id": None, "gives": {"kmsg": ["kernel_log"]}},
    ],
)
def test_any_meta_that_passes_as_one_will_do(meta: dict[str, object]) -> None:
    assert settled(small(), meta).table("samples").num_rows == 30


def test_many_names_for_one_source_are_no_more_than_the_last() -> None:
    head = Head()
    for number in range(2000):
        head.writer.put(NAME, number % 7, 0, json.dumps({"ring": number}).encode())
    head.ring(0, 1.0, ran(7, 0.5, CODE))
    settled(head.bytes(), META).tables()
