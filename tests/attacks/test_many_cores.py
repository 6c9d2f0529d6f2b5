"""A node of many cores whose counters are shared: others (perf stat, another profiler) make every core many sources."""

from __future__ import annotations

import io
import struct

from tests.recorder.heads import META, ran, records

from zombiescope.kernel.perf_open import Event
from zombiescope.kernel.perf_rings import Drained
from zombiescope.recorder.head import MOST_SOURCES, RING, HeadReader, HeadSink, Record, Take
from zombiescope.recorder.settle import settled
from zombiescope.recorder.sources import Ring, named

CORES = 1024
EVENT = Event(name="cycles", hz=49, kernel=True, user=True, cgroup=True)
CODE = 0x55D000000000


def test_a_thousand_cores_with_every_share_are_recorded() -> None:
    """1,024 cores whose counter is there for each hundredth of the time, one after the other: 102,400 sources."""
    parts: list[bytes] = []
    sink = HeadSink(parts.extend)
    for share in (*range(100), 3, 99):
        content = struct.pack("<Q", share)
        sink.drained(EVENT, [Drained(core, content, 0, None, share / 100) for core in range(CORES)])
        sink.flush()
    seen: list[tuple[int, float, int]] = []

    def taker(name: memoryview) -> Take | None:
        ring = named(name, 49)
        assert isinstance(ring, Ring)

        def take(record: Record, _: int | None) -> None:
            seen.append((ring.cpu, ring.share, *struct.unpack("<Q", record.content)))

        return take

    HeadReader(io.BytesIO(b"".join(parts))).deliver(taker)
    assert len(seen) == 102 * CORES, "nothing is left out"
    assert all(share == counted / 100 for _, share, counted in seen), "and each is read as what it was"
    assert [core for core, _, _ in seen] == [*range(CORES)] * 102
    numbers = {it.source for it in records(b"".join(parts)) if it.kind == RING}
    assert len(numbers) < MOST_SOURCES, "a probe that begins later has its number"


def test_a_head_of_more_sources_than_there_are_numbers_is_settled() -> None:
    """The same with samples in it, through all that makes a segment of a head."""
    parts: list[bytes] = []
    sink = HeadSink(parts.extend)
    for share in range(66):
        samples = [ran(100 + core, 1 + share, CODE, cpu=core) for core in range(CORES)]
        sink.drained(
            EVENT,
            [Drained(core, it, 0, None, (share + 1) / 100) for core, it in zip(range(CORES), samples, strict=True)],
        )
        sink.flush()
    found = settled(b"".join(parts), {**META, "sampled": "cycles"})
    assert found.table("samples").num_rows == 66 * CORES and not found.damage
