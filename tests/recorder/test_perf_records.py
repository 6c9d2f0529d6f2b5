"""What rings hold, decoded from records made by hand, and from what is left of them after an accident."""

from __future__ import annotations

import random
import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kernel.sampler import RawStack, StackTable, whole

from zombiescope.core.errors import Unparsable
from zombiescope.kernel.perf_changes import Comm, Exit, Fork, Ksymbol, Mmap, Throttle
from zombiescope.kernel.perf_rings import unwrap
from zombiescope.recorder.perf_records import _PERIOD, Parsed, parse

KERNEL, USER = (1 << 64) - 128, (1 << 64) - 512
IN_KERNEL, IN_PROCESS = 0xFFFFFFFF81000000, 0x55D000001000


def record(kind: int, body: bytes, misc: int = 0) -> bytes:
    return struct.pack("<IHH", kind, misc, 8 + len(body)) + body


def trailer(pid: int, time_ns: int, cpu: int = 0) -> bytes:
    return struct.pack("<iiqII", pid, pid, time_ns, cpu, 0)


def sample(pid: int, time_ns: int, *chain: int, cpu: int = 1, cgroup: int | None = None) -> bytes:
    fixed = struct.pack("<QiiqIIqQ", chain[1] if chain else 0, pid, pid + 1, time_ns, cpu, 0, 1000, len(chain))
    tail = b"" if cgroup is None else struct.pack("<Q", cgroup)
    return record(9, fixed + struct.pack(f"<{len(chain)}Q", *chain) + tail)


def padded(text: bytes) -> bytes:
    return text + bytes(8 - len(text) % 8)


def stacks(parsed: Parsed) -> list[RawStack]:
    table = StackTable()
    table.numbers(whole(parsed.chains))
    return table.stacks(0)


COMM = record(3, struct.pack("<ii", 7, 8) + padded(b"\xffworker") + trailer(7, 50), misc=1 << 13)
FORK = record(7, struct.pack("<iiiiq", 9, 7, 9, 8, 60) + trailer(7, 60))
EXIT = record(4, struct.pack("<iiiiq", 9, 7, 9, 8, 70) + trailer(9, 70))
MAPPED = struct.pack("<iiQQQ", 7, 7, 0x55D000000000, 0x3000, 0x1000)
BUILD_ID = record(
    10,
    MAPPED + struct.pack("<BBH20s", 20, 0, 0, bytes(range(20))) + bytes(8) + padded(b"/usr/bin/x y") + trailer(7, 55),
    misc=1 << 14,
)
INODE = record(10, MAPPED + struct.pack("<IIQQ", 254, 3, 77, 1) + bytes(8) + padded(b"//anon") + trailer(7, 56))
THROTTLE = record(5, struct.pack("<qQQ", 80, 1, 1) + trailer(0, 80, cpu=3))
LOST = record(2, struct.pack("<QQ", 1, 23) + trailer(0, 90))
UNKNOWN = record(99, bytes(16))


def test_code_added_to_the_kernel_is_decoded() -> None:
    name = padded(b"bpf_prog_6deef7357e7b4530_x")
    added = record(17, struct.pack("<QIHH", 0xFFFFFFFFC0001000, 97, 1, 0) + name + trailer(7, 50))
    gone = record(17, struct.pack("<QIHH", 0xFFFFFFFFC0001000, 97, 1, 1) + name + trailer(7, 60))
    about = (0xFFFFFFFFC0001000, 97, "bpf_prog_6deef7357e7b4530_x")
    assert parse([gone + added], cgroup=True).records == [Ksymbol(50, *about, False), Ksymbol(60, *about, True)]
    assert parse([added[:4] + struct.pack("<HH", 0, 48) + added[8:48]], cgroup=True).damage, "shorter than it can be"


def test_samples_become_columns_in_order_of_time() -> None:
    first = sample(7, 20, KERNEL, IN_KERNEL, USER, IN_PROCESS, cgroup=42) + sample(-1, 40, cgroup=0)
    second = sample(0, 30, KERNEL, IN_KERNEL, cpu=95, cgroup=1)
    parsed = parse([first, second], cgroup=True)
    assert parsed.time_ns.tolist() == [20, 30, 40]
    assert parsed.cpu.tolist() == [1, 95, 1] and parsed.cpu.dtype == "uint16"
    assert parsed.pid.tolist() == [7, 0, -1] and parsed.tid.tolist() == [8, 1, 0]
    assert parsed.cgroup.tolist() == [42, 1, 0]
    assert parsed.ip.tolist() == [IN_KERNEL, IN_KERNEL, 0]
    assert parsed.period.tolist() == [1000] * 3
    assert stacks(parsed) == [
        RawStack((IN_KERNEL,), (IN_PROCESS,), 7),
        RawStack((IN_KERNEL,), (), 0),
        RawStack((), (), 0),
    ]
    assert parsed.lost == [0, 0] and parsed.damage == []


def test_a_kernel_without_cgroups_in_samples() -> None:
    parsed = parse([sample(7, 1, KERNEL, IN_KERNEL)], cgroup=False)
    assert parsed.cgroup.tolist() == [0] and stacks(parsed) == [RawStack((IN_KERNEL,), (), 0)]


def test_nothing_is_nothing() -> None:
    for parts in ([], [b""], [b"", b""]):
        parsed = parse(parts, cgroup=True)
        assert len(parsed.time_ns) == len(parsed.records) == len(parsed.damage) == 0


def test_other_records_become_objects_in_order_of_time() -> None:
    parsed = parse([EXIT + THROTTLE + FORK, LOST + INODE + UNKNOWN + BUILD_ID + COMM], cgroup=True)
    path = "/usr/bin/x y"
    assert parsed.records == [
        Comm(50, 7, 8, "\udcffworker", True),
        Mmap(55, 7, 0x55D000000000, 0x3000, 0x1000, path, bytes(range(20)), (0, 0), 0),
        Mmap(56, 7, 0x55D000000000, 0x3000, 0x1000, "//anon", b"", (254, 3), 77),
        Fork(60, 9, 9, 7, 8),
        Exit(70, 9, 9, 7, 8),
        Throttle(80, 3, True),
    ]
    assert parsed.lost == [0, 23] and parsed.damage == []


def test_chains_of_the_kernel_are_shared_and_those_of_processes_are_not() -> None:
    kernel = [sample(pid, pid, KERNEL, IN_KERNEL) for pid in (1, 2)]
    both = [sample(pid, pid, KERNEL, IN_KERNEL, USER, IN_PROCESS) for pid in (3, 4)]
    chains = parse([b"".join(kernel + both)], cgroup=False).chains
    assert StackTable().numbers(whole(chains)).tolist() == [0, 0, 1, 2]
    keys = chains.keys().tolist()
    assert keys[0] == keys[1] and len({*keys}) == 3


def test_keys_are_the_same_for_the_same_chain_wherever_it_stands() -> None:
    """Also beyond where the powers begin again, and across that place."""
    drawn = random.Random(5)
    made = [
        sample(7, at, KERNEL, *(drawn.choice((1, 2, IN_KERNEL)) for _ in range(drawn.choice((1, 2, 2, 3, 60, 254)))))
        for at in range(3000)
    ]
    again = [
        it[:8] + it[8:24] + struct.pack("<q", 5000 + at) + it[32:] for at, it in enumerate(drawn.sample(made, 900))
    ]
    chains = parse([b"".join(made + again)], cgroup=False).chains
    assert len(chains.words) > 4 * _PERIOD
    found: dict[bytes, set[int]] = {}
    for one, key in zip(whole(chains), chains.keys().tolist(), strict=True):
        found.setdefault(one, set()).add(key)
    assert all(len(it) == 1 for it in found.values()) and len({key for it in found.values() for key in it}) == len(
        found
    )


def test_what_looks_like_a_marker_elsewhere_is_none() -> None:
    named = record(3, struct.pack("<ii", 7, 8) + struct.pack("<Q", USER) + trailer(7, 5))
    parsed = parse([named + sample(7, 6, KERNEL, IN_KERNEL, cgroup=USER) + named], cgroup=True)
    assert stacks(parsed) == [RawStack((IN_KERNEL,), (), 0)]
    [stack] = stacks(parse([sample(7, 6, USER, IN_PROCESS, KERNEL, IN_PROCESS + 1)], cgroup=False))
    assert stack == RawStack((), (IN_PROCESS, IN_PROCESS + 1), 7)
    guest = (1 << 64) - 2048
    [stack] = stacks(parse([sample(7, 6, KERNEL, IN_KERNEL, guest, 1, USER, 2)], cgroup=False))
    assert stack == RawStack((IN_KERNEL,), (2,), 7)


def test_a_ring_that_begins_anew_is_read_in_one_piece() -> None:
    told = sample(7, 20, KERNEL, IN_KERNEL) + FORK
    for tail in range(0, 512, 8):
        ring = bytearray(256)
        for at, byte in enumerate(told):
            ring[(tail + at) % 256] = byte
        assert unwrap(memoryview(ring), tail, tail + len(told)) == told
    assert unwrap(memoryview(bytes(256)), 512, 512) == b""
    assert unwrap(memoryview(told[:128]), 128, 256) == told[:128]
    with pytest.raises(Unparsable, match="the ring has 256 bytes but claims 264 unread ones"):
        unwrap(memoryview(bytes(256)), 8, 272)


GOOD = sample(7, 20, KERNEL, IN_KERNEL, cgroup=1) + FORK


@pytest.mark.parametrize(
    ("bad", "offset"),
    [
        (bytes(8), 0),  # no size
        (struct.pack("<IHH", 9, 0, 4) + bytes(64), 0),  # less than its header
        (struct.pack("<IHH", 1, 0, 12) + bytes(64), 0),  # not words
        (struct.pack("<IHH", 9, 0, 65528), 0),  # beyond the end
        (record(9, bytes(40)), 0),  # a sample without a count
        (sample(7, 1, KERNEL, IN_KERNEL), 0),  # the count is one too many
        (record(9, bytes(40) + b"\xff" * 8), 0),  # the count is less than nothing
        (record(10, bytes(40)), 0),  # too short for a mapping
        (GOOD + b"torn", len(GOOD)),
    ],
)
def test_what_came_before_the_damage_is_kept(bad: bytes, offset: int) -> None:
    parsed = parse([GOOD + bad + GOOD, GOOD], cgroup=True)
    assert len(parsed.damage) == 1
    assert parsed.damage[0].line == len(GOOD) + offset and "from ring 0" in str(parsed.damage[0])
    kept = 3 if offset else 2
    assert len(parsed.time_ns) == len(parsed.records) == kept


WHOLE = COMM + sample(7, 20, KERNEL, IN_KERNEL, USER, IN_PROCESS, cgroup=1) + BUILD_ID + LOST + GOOD + INODE + THROTTLE


@given(st.lists(st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(0, 255)), max_size=8), st.integers(0, len(WHOLE)))
def test_no_bytes_are_too_hostile(changes: list[tuple[int, int]], cut: int) -> None:
    data = bytearray(WHOLE)
    for at, byte in changes:
        data[at] = byte
    parsed = parse([bytes(data), bytes(data[:cut]), WHOLE], cgroup=True)
    first = min((at for at, _ in changes), default=len(WHOLE))
    untouched = [WHOLE[:first], WHOLE[: min(first, cut)], WHOLE]
    assert len(parsed.time_ns) >= sum(len(parse([part], cgroup=True).time_ns) for part in untouched)
    assert all(isinstance(stack.pid, int) for stack in stacks(parsed))


@given(st.lists(st.binary(max_size=300), max_size=4), st.booleans())
def test_no_noise_is_too_loud(parts: list[bytes], cgroup: bool) -> None:
    parsed = parse(parts, cgroup=cgroup)
    assert len(parsed.lost) == len(parts) >= len(parsed.damage)
    stacks(parsed)


RECORDS = (COMM, FORK, EXIT, BUILD_ID, INODE, THROTTLE, LOST, UNKNOWN, record(13, bytes(7) + b"\x05" + trailer(0, 91)))


@given(
    st.lists(st.lists(st.integers(0, 24), max_size=20), max_size=4),
    st.sampled_from([b"", sample(7, 1, KERNEL, IN_KERNEL), record(10, bytes(40)), record(9, bytes(40) + b"\xff" * 8)]),
    st.booleans(),
)
def test_by_column_it_is_the_same(chosen: list[list[int]], odd: bytes, cgroup: bool) -> None:
    chain = (KERNEL, IN_KERNEL, USER, IN_PROCESS)
    number = 77 if cgroup else None
    made = [
        sample(pid, time, *chain[:most], cgroup=number) for pid in (0, 7) for time in (5, 3) for most in (0, 2, 3, 4)
    ]
    parts = [b"".join([*RECORDS, *made][it] for it in part) for part in chosen]
    starts, at = [], 0
    for it in [[*RECORDS, *made][it] for part in chosen for it in part] + [odd] * bool(odd):
        starts.append(at)
        at += len(it) // 8
    plain = parse([*parts, odd], cgroup=cgroup)
    columns = parse([*parts, odd], cgroup=cgroup, starts=np.array(starts, np.int64))
    for name in ("time_ns", "cpu", "pid", "tid", "ip", "period", "cgroup"):
        assert getattr(plain, name).tolist() == getattr(columns, name).tolist()
    assert (plain.records, plain.lost) == (columns.records, columns.lost)
    assert whole(plain.chains) == whole(columns.chains)
    assert [str(it) for it in plain.damage] == [str(it) for it in columns.damage]


def test_old_stacks_are_forgotten_and_numbers_never_given_twice() -> None:
    table = StackTable(most=10)
    chains = [struct.pack("<iQQ", 0, KERNEL, IN_KERNEL + at) for at in range(12)]
    assert table.numbers(chains).tolist() == list(range(12))
    assert len(table.stacks(0)) == 12  # what one call has numbered is there after it
    assert table.numbers(chains[5:7]).tolist() == [12, 6]
    assert table.first == 6 and table.next == 13
    assert [stack.kernel[0] - IN_KERNEL for stack in table.stacks(6)] == [6, 7, 8, 9, 10, 11, 5]
    assert table.stacks(13) == table.stacks(14) == []
    with pytest.raises(IndexError, match="stacks before number 6 are forgotten"):
        table.stacks(5)
