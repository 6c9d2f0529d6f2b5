"""The rings of a head, settled: samples, stacks, names, gaps; made by hand, and sampled for real."""

from __future__ import annotations

import shutil
import struct
import subprocess
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.conftest import CANNOT
from tests.kernel.sampler import StackTable, whole
from tests.recorder.heads import (
    AHEAD,
    KERNEL,
    META,
    SECOND,
    USER,
    Head,
    exited,
    forked,
    mapped,
    named,
    new_cgroup,
    of_another_boot,
    ran,
    throttled,
    trailer,
)
from tests.recorder.heads import record as perf_record

from zombiescope.core import Host, own_work
from zombiescope.derived import gaps
from zombiescope.naming.mappings import Mappings
from zombiescope.naming.namer import Namer
from zombiescope.recorder import layout, stack_names, stack_series
from zombiescope.recorder.carry import loaded
from zombiescope.recorder.perf_records import Chains
from zombiescope.recorder.segment import stack_batches
from zombiescope.recorder.settle import Settled, settled
from zombiescope.recorder.short import record

CODE = 0x55D000000000
IN_KERNEL = 0xFFFFFFFF81000000


def rows(found: Settled) -> list[dict[str, Any]]:
    frames = {it["stack"]: it["frames"] for it in found.table("stacks").to_pylist()}
    return [{**it, "frames": frames[it["stack"]]} for it in found.table("samples").to_pylist()]


def events(found: Settled, what: str) -> list[tuple[str, float]]:
    return [(it["subject"], it["value"]) for it in found.table("events").to_pylist() if it["what"] == what]


def latest(found: Settled, what: str) -> float:
    return [float(it["value"]) for it in found.table("series").to_pylist() if it["what"] == what][-1]


def test_the_series_are_named_as_those_who_read_them_say() -> None:
    assert stack_series.GAP == gaps.GAP
    assert layout.OWN_PROCESS == own_work.OWN_PROCESS


def test_a_process_is_named_by_its_own_records_alone_on_another_machine() -> None:
    head = Head()
    began = [forked(500, 1, 0.1), named(500, 0.2, "worker", execed=True), mapped(500, 0.21, CODE, "/usr/bin/worker")]
    head.ring(0, 1.0, *began, ran(500, 0.5, CODE + 0x10, CODE + 0x2000, kernel=[IN_KERNEL], cgroup=42))
    head.ring(1, 1.0, ran(500, 0.4, CODE + 0x10, cpu=1, tid=501), new_cgroup(42, "/kubepods/pod1", 0.3))
    head.ring(2, 1.0, ran(0, 0.6, kernel=[IN_KERNEL + 0x20], cpu=2))  # the idle task: all but a few just idle
    found = settled(head.bytes(), META)
    first, second = rows(found)
    assert (first["at"], first["cpu"], first["pid"], first["tid"]) == (AHEAD + 4 * SECOND // 10, 1, 500, 501)
    assert first["frames"] == ["worker+0x10"] and first["comm"] == "worker", "as its process"
    assert second["frames"] == ["worker+0x2000", "worker+0x10", "[unknown]"] and second["comm"] == "worker"
    assert {it["stack"]: it["kernel_frames"] for it in found.table("stacks").to_pylist()}[second["stack"]] == 1
    assert events(found, "cgroup_id") == [("cgroup:/kubepods/pod1", 42)]
    assert latest(found, "samples_total") == 2 and latest(found, "kernel_symbols") == 0
    assert not found.damage


def test_names_are_those_of_the_time_of_the_sample() -> None:
    head = Head()
    begun = [forked(7, 1, 0.05), named(7, 0.1, "sh", execed=True), mapped(7, 0.1, CODE, "/bin/sh")]
    later = [named(7, 0.5, "ls", execed=True), mapped(7, 0.5, CODE, "/bin/ls"), exited(7, 0.9)]
    reused = [forked(7, 1, 1.1), named(7, 1.2, "cat", execed=True), mapped(7, 1.2, CODE, "/bin/cat")]
    head.ring(0, 1.0, *begun, *later, ran(7, 0.2, CODE + 1), ran(7, 0.7, CODE + 1))
    head.ring(0, 20.0, *reused, ran(7, 1.5, CODE + 1))
    assert [(it["comm"], it["frames"]) for it in rows(settled(head.bytes(), META))] == [
        ("sh", ["sh+0x1"]),
        ("ls", ["ls+0x1"]),
        ("cat", ["cat+0x1"]),
    ]


def test_a_child_has_the_mappings_and_the_name_of_its_parent() -> None:
    head = Head()
    head.ring(0, 1.0, forked(7, 1, 0.05), named(7, 0.1, "pool", execed=True), mapped(7, 0.1, CODE, "/bin/pool"))
    head.ring(0, 2.0, forked(8, 7, 1.1), exited(7, 1.2))
    head.ring(0, 3.0, ran(8, 2.5, CODE + 4))
    (row,) = rows(settled(head.bytes(), META))
    assert (row["comm"], row["frames"]) == ("pool", ["pool+0x4"])


def test_a_process_has_the_mappings_of_the_first_of_a_hundred_generations() -> None:
    head = Head()
    chain = [part for pid in range(101, 200) for part in (forked(pid, pid - 1, pid / 100), exited(pid - 1, pid / 100))]
    begun = [forked(100, 1, 0.1), named(100, 0.2, "first", execed=True), mapped(100, 0.3, CODE, "/bin/first")]
    head.ring(0, 3.0, *begun, *chain, ran(199, 2.5, CODE + 4))
    (row,) = rows(settled(head.bytes(), META))
    assert (row["comm"], row["frames"]) == ("first", ["first+0x4"])


def test_a_gap_ends_with_the_sample_that_comes_late() -> None:
    head = Head()
    head.ring(0, 1.0, *(ran(5, at / 100, CODE) for at in range(50)))
    head.ring(0, 2.0, ran(5, 0.49 + 0.1234, CODE), *(ran(5, at / 100, CODE) for at in range(62, 99)))
    head.ring(
        1, 2.0, *(ran(5, at / 100, CODE, cpu=1) for at in range(40)), throttled(1, 0.5), ran(5, 0.7777, CODE, cpu=1)
    )
    ((subject, length),) = events(settled(head.bytes(), META), "core_gap_seconds")
    assert subject == "cpu:0" and length == pytest.approx(0.1234)


def test_gaps_and_counts_go_on_in_the_next_head() -> None:
    first, second = Head(), Head()
    first.ring(0, 1.0, named(5, 0.1, "five"), *(ran(5, at / 100, CODE) for at in range(99)))
    first.lost(0, 1.0, 7)
    one = settled(first.bytes(), META)
    second.ring(0, 2.0, ran(5, 0.98 + 0.2345, CODE))
    carried = loaded(one.carry.saved())
    assert carried == one.carry
    two = settled(second.bytes(), META, carry=carried)
    ((subject, length),) = events(two, "core_gap_seconds")
    assert (subject, round(length, 6)) == ("cpu:0", 0.2345)
    assert latest(two, "samples_total") == 100 and latest(two, "samples_lost_total") == 7
    assert [it["comm"] for it in rows(two)] == ["five"]
    alone = settled(second.bytes(), META)
    assert events(alone, "core_gap_seconds") == [] and latest(alone, "samples_total") == 1


def test_what_lives_on_is_named_in_the_next_head_too() -> None:
    first, second, late = Head(), Head(), Head()
    first.ring(0, 1.0, forked(9, 1, 0.1), named(9, 0.2, "long", execed=True), mapped(9, 0.3, CODE, "/usr/bin/long"))
    second.ring(0, 2.0, ran(9, 1.5, CODE + 8))
    late.ring(0, 60.0, ran(9, 59.5, CODE + 8))
    carry = loaded(settled(first.bytes(), META).carry.saved())
    assert rows(settled(second.bytes(), META, carry=carry))[0]["frames"] == ["long+0x8"]
    assert rows(settled(late.bytes(), META, carry=carry))[0]["frames"] == ["[unknown]"], "a pid may be another by then"
    other = {**META, "boot_id": "another yet"}
    assert rows(settled(second.bytes(), other, carry=carry))[0]["frames"] == ["[unknown]"]


def test_losses_are_the_larger_of_what_records_and_events_say() -> None:
    head = Head()
    head.ring(0, 1.0, ran(5, 0.5, CODE), perf_record(2, struct.pack("<QQ", 1, 23) + trailer(0, 0.9)))
    head.lost(0, 1.0, 20)
    head.lost(1, 1.0, 5)
    assert latest(settled(head.bytes(), META), "samples_lost_total") == 28


def test_every_read_is_a_look_and_what_it_could_not_see_is_said() -> None:
    head = Head()
    blind = [("samples_total", "perf", "no hardware counter", "node")]
    for second in range(1, 4):
        if second != 2:  # an idle second: nothing was in the rings
            head.ring(0, second, *(ran(5, second - 0.9 + at / 100, CODE) for at in range(second * 10)))
        head.sample("stacks", second, blind=blind)
    series = settled(head.bytes(), META).table("series").to_pylist()
    taken = [(it["at"] - AHEAD, it["value"]) for it in series if it["what"] == "samples_total"]
    assert taken == [(SECOND, 10), (3 * SECOND, 40)], "a value that did not change is not written again"
    looks = [it["at"] - AHEAD for it in series if it["what"] == "looked" and it["subject"] == "probe:stacks"]
    assert looks == [SECOND, 2 * SECOND, 3 * SECOND]
    unseen = {it["subject"]: (it["value"], it["text"]) for it in series if it["what"] == "unseen"}
    assert unseen["samples_total"] == (2.0, "no hardware counter") and unseen["kernel_symbols"][0] == 1.0


def test_where_sampling_was_refused_all_of_it_is_blind() -> None:
    head = Head()
    head.sample("stacks", 1.0, blind=[(what, "perf", "not permitted", "") for what in stack_series.GIVES])
    (row,) = settled(head.bytes(), {**META, "gives": {"stacks": list(stack_series.GIVES)}}).table("series").to_pylist()
    assert (row["what"], row["value"], row["text"]) == ("looked", 0.0, "not permitted")


def test_garbage_in_a_ring_is_damage_and_what_was_before_it_is_kept() -> None:
    head = Head()
    head.ring(0, 1.0, ran(5, 0.5, CODE), b"\xff" * 64)
    head.ring(1, 1.0, b"\x01" * 13)
    head.ring(2, 1.0, ran(5, 0.6, CODE, cpu=2))
    found = settled(head.bytes(), META)
    assert len(rows(found)) == 2 and len(found.damage) == 2 and all("ring" in it for it in found.damage)


chains = st.lists(
    st.lists(
        st.sampled_from([KERNEL, USER, (1 << 64) - 4095, (1 << 64) - 1, IN_KERNEL, IN_KERNEL + 9, CODE, CODE + 5, 0]),
        max_size=8,
    ),
    min_size=1,
    max_size=8,
)


@given(chains, st.lists(st.integers(1, 3), min_size=8, max_size=8))
def test_a_batch_names_as_one_by_one(lists: list[list[int]], pids: list[int]) -> None:
    def namer() -> Namer:
        mappings = Mappings(maps=lambda _: b"55d000000000-55d000001000 r-xp 00000000 08:01 77 /usr/bin/x\n")
        mappings.see([1, 2], 0)
        return Namer(None, mappings, here=False)

    last = np.cumsum([len(it) for it in lists])
    words = np.array([it for chain in lists for it in chain], np.uint64)
    made = Chains(words, last - [len(it) for it in lists], last, np.array(pids[: len(lists)], np.int32))
    batch = stack_names.StackNames(namer())
    numbers = batch.numbers(
        made, np.arange(len(lists)), np.zeros(len(lists), np.int64), np.zeros(len(lists), np.uint64)
    )
    frames = [tuple(it["frames"]) for it in (row for part in stack_batches(batch) for row in part.to_pylist())]
    ids = [it["stack"] for it in (row for part in stack_batches(batch) for row in part.to_pylist())]
    table, one = StackTable(), namer()
    own = table.numbers(whole(made))
    for number, place in zip(numbers.tolist(), own.tolist(), strict=True):
        stack = table.stacks(0)[place]
        leaf_first = [*one.kernel(stack.kernel), *(one.user(stack.pid, it, 0)[0] for it in stack.user)]
        assert frames[ids.index(batch.ids[number])] == tuple(reversed(leaf_first))


def test_more_stacks_than_are_kept_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stack_names, "MOST_BYTES", 6 * stack_names.LEAST)
    head = Head()
    head.ring(0, 1.0, mapped(5, 0.1, CODE, "/x"), *(ran(5, 0.2 + it / 100, *[CODE] * it) for it in range(1, 8)))
    found = settled(head.bytes(), META)
    assert [it["frames"] for it in rows(found)][3:] == [[stack_names.TOO_MANY]] * 4
    assert found.damage == [
        "4 stacks of ? (pid 5) have only the kernel's functions: its own would take too much room",
    ]


PROGRAM = """
volatile unsigned long turns;
__attribute__((noinline)) void spin_here(void) { for (unsigned long i = 0; i < 50000000; i++) turns++; }
int main(void) { for (;;) spin_here(); }
"""


@pytest.mark.kernel
@pytest.mark.beside
def test_a_program_that_still_runs_is_named_from_proc(tmp_path: Path) -> None:
    if shutil.which("gcc") is None:
        pytest.skip(CANNOT + "compile the program to look for: no gcc")
    flags = ("-O1", "-fno-omit-frame-pointer", "-mno-omit-leaf-frame-pointer", "-x", "c", "-o", tmp_path / "known", "-")
    subprocess.run(["gcc", *flags], input=PROGRAM, text=True, check=True)
    with subprocess.Popen([tmp_path / "known"]) as before:
        time.sleep(0.2)
        with subprocess.Popen(["sh", "-c", "sleep 1; exec " + str(tmp_path / "known")]) as during:
            try:
                look = record(Host(), 4.0, hz=99)
                if not look.meta["hz"]:
                    pytest.skip(CANNOT + "sample")
                found = settled(look.head, look.meta, host=Host())
                elsewhere = settled(of_another_boot(look.head), look.meta, host=Host())
            finally:
                before.kill()
                during.kill()
    for pid in (before.pid, during.pid):
        own = [it for it in rows(found) if it["pid"] == pid]
        assert sum("spin_here" in it["frames"] for it in own) > 0.9 * len(own) > 50
        assert {it["comm"] for it in own if "spin_here" in it["frames"]} == {"known"}
    seen = Counter(tuple(it["frames"]) for it in rows(elsewhere) if it["pid"] == during.pid)
    assert any(frame.startswith("known+0x") for stack in seen for frame in stack), "by its records alone"
    assert not any("spin_here" in stack for stack in seen)
