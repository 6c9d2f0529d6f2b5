"""The head: what was appended comes back, and what is torn or damaged ends it there."""

from __future__ import annotations

import json
import struct

import pytest
from tests.recorder.heads import records, whole

from zombiescope.recorder.head import (
    CLOCK,
    FETCHED,
    LOST,
    MAGIC,
    NAME,
    RING,
    SAME,
    SAMPLE,
    HeadWriter,
)


def written() -> bytes:
    parts: list[bytes] = []
    head = HeadWriter(parts.extend)
    head.clock(1, 1_000_000_000)
    head.clock(2, 1_000_000_001)  # as good as the same
    stat = head.source({"probe": "proc_stat"}, 3)
    head.fetched(stat, 4, b"cpu 1 2 3\n")
    head.fetched(stat, 5, b"cpu 1 2 3\n")
    head.flush()
    assert head.source({"probe": "proc_stat"}, 6) == stat
    head.fetched(stat, 6, b"cpu 1 2 4\n")
    units = head.source({"probe": "systemd_units"}, 7)
    reading = ("unit_active", "unit:a\x1b.service", 1.0, 7.5, "$ busctl", "\udcff")
    head.sample(units, 7, taken=7.5, readings=[reading], blind=[("unit_file", "bus", "denied", "")], cost=0.001)
    core = head.source({"ring": 137}, 8)
    head.put(RING, core, 8, bytes(range(256)))
    head.put(LOST, core, 9, (23).to_bytes(8, "little"))
    head.flush()
    assert head.flush() == 0
    assert head.bytes == sum(map(len, parts))
    return b"".join(parts)


def test_all_of_it_comes_back_in_order() -> None:
    found = list(records(written()))
    kinds = [CLOCK, NAME, FETCHED, SAME, FETCHED, NAME, SAMPLE, NAME, RING, LOST]
    assert [it.kind for it in found] == kinds and [it.at for it in found] == [1, 3, 4, 5, 6, 7, 7, 8, 8, 9]
    assert struct.unpack("<q", found[0].content) == (1_000_000_000,)
    assert bytes(found[2].content) == b"cpu 1 2 3\n" and not found[3].content
    assert found[2].source == found[3].source == found[4].source != found[6].source
    said = json.loads(bytes(found[6].content))
    assert said["readings"] == [["unit_active", "unit:a\x1b.service", 1.0, 7.5, "$ busctl", "\udcff"]]
    assert bytes(found[8].content) == bytes(range(256))
    assert struct.unpack("<Q", found[9].content) == (23,)


def test_cut_anywhere_it_ends_before_what_is_not_whole() -> None:
    head = written()
    ends = {len(MAGIC)}
    for record in records(head):
        ends.add(max(ends) + 24 + len(record.content))
    assert whole(head) == max(ends) == len(head)
    for cut in range(len(head)):
        assert whole(head[:cut]) == max((end for end in ends if end <= cut), default=0)


@pytest.mark.parametrize("place", range(0, 600, 7))
def test_a_damaged_byte_ends_it_there(place: int) -> None:
    head = bytearray(written())
    place %= len(head)
    head[place] ^= 0x40
    assert whole(bytes(head)) <= place


def test_a_length_that_nobody_writes_is_no_record() -> None:
    assert whole(MAGIC + struct.pack("<IIQHB5x", 0, 0xFFFFFFFF, 0, 0, 3) + b"x" * 100) == len(MAGIC)
    assert whole(b"") == whole(b"something else entirely") == 0
