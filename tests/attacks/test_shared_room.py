"""Attacks on what all programs share in a recording: one wants so much that the others lose theirs."""

from __future__ import annotations

import random
import shutil
import struct
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.conftest import CANNOT
from tests.recorder.heads import AHEAD, META, SECOND, Head, forked, mapped, named, padded, ran, record, trailer

from zombiescope.core import Host
from zombiescope.recorder import short, stack_names
from zombiescope.recorder.settle import Settled, settled

CODE, IN_KERNEL = 0x55D000000000, 0xFFFFFFFF81000000
AT = AHEAD / SECOND
LONG = "/opt/" + "l" * 250  # a file may have a name of 255 bytes, and a function without a name has that of its file
DEEP = 120  # functions of one stack, of the 127 that the kernel takes
HOSTILE, VICTIM = 500, 100


def rows(found: Settled) -> list[dict[str, Any]]:
    stacks = {it["stack"]: it for it in found.table("stacks").to_pylist()}
    return [{**it, **stacks[it["stack"]]} for it in found.table("samples").to_pylist()]


def troubles(found: Settled) -> list[str]:
    return [it["text"] for it in found.table("events").to_pylist() if it["what"] == "recorder_trouble"]


def began(pid: int, name: str, path: str, at: float = 0.1) -> list[bytes]:
    return [forked(pid, 1, at), named(pid, at, name, execed=True), mapped(pid, at, CODE, path, length=1 << 30)]


def deep(pids: list[int], many: int, addresses: int, cgroup: int = 0) -> list[list[bytes]]:
    """So many stacks by turns, no two the same, in rings of a second each."""
    drawn = random.Random(4)
    return [
        [
            ran(
                pids[(second * 500 + it) % len(pids)],
                1 + second + it / 500,
                *(CODE + 8 * drawn.randrange(addresses) for _ in range(DEEP)),
                kernel=[IN_KERNEL],
                cgroup=cgroup,
            )
            for it in range(500)
        ]
        for second in range(many // 500)
    ]


def attacked(pids: list[int], many: int, addresses: int, cgroup: int = 0) -> Settled:
    """A recording of hostile processes and a victim that is sampled after them."""
    head = Head()
    head.ring(0, 1.0, *began(VICTIM, "victim", "/bin/victim"), *(it for pid in pids for it in began(pid, "evil", LONG)))
    for second, samples in enumerate(deep(pids, many, addresses, cgroup)):
        head.ring(0, 2.0 + second, *samples)
    later = (ran(VICTIM, 100 + it / 100, CODE + 16 * it, kernel=[IN_KERNEL], cgroup=1) for it in range(50))
    head.ring(1, 101.0, *later)
    return settled(head.bytes(), META)


def holds(found: Settled, pids: list[int]) -> None:
    own = [it["frames"] for it in rows(found) if it["pid"] == VICTIM]
    assert own == [[f"victim+{16 * it:#x}", "[unknown]"] for it in range(50)], "the victim has lost nothing"
    theirs = [it for it in rows(found) if it["pid"] in pids]
    assert all(it["kernel_frames"] == 1 and it["frames"][-1] == "[unknown]" for it in theirs), "nor has the kernel"
    assert max(len(name) for it in theirs for name in it["frames"]) <= stack_names.LONGEST
    size = sum(len(name) for it in found.table("stacks").to_pylist() for name in it["frames"])
    assert size <= stack_names.MOST_BYTES // 2


def test_one_program_with_endless_stacks_of_long_names_costs_only_itself() -> None:
    """Nine thousand stacks of one program, of 30 KB of names each: together more than a segment may have."""
    found = attacked([HOSTILE], 9000, 200)
    holds(found, [HOSTILE])
    cut = [it for it in rows(found) if it["frames"][0] == stack_names.TOO_MANY]
    assert cut and {it["pid"] for it in cut} == {HOSTILE} and all(len(it["frames"]) == 2 for it in cut)
    (said,) = troubles(found)
    assert said.startswith(f"{len(cut):,} stacks of evil (pid {HOSTILE}) have only the kernel's functions")


def test_forty_processes_in_one_cgroup_have_one_share() -> None:
    """The same, by forty processes that were forked for it."""
    pids = list(range(HOSTILE, HOSTILE + 40))
    found = attacked(pids, 9000, 200, cgroup=7)
    holds(found, pids)
    (said,) = troubles(found)
    assert f"stacks of evil (pid {HOSTILE} and 39 more)" in said


def test_a_program_with_a_million_functions_has_names_for_some() -> None:
    """So many functions with long names that the memory of whoever settles them ends."""
    found = attacked([HOSTILE], 3000, 1 << 27)
    holds(found, [HOSTILE])
    names = {name for it in found.table("stacks").to_pylist() for name in it["frames"]}
    assert sum(map(sys.getsizeof, names)) <= stack_names.MOST_NAMES
    assert any("functions of evil" in it and "have no name: it has too many" in it for it in troubles(found))


def test_a_stack_that_the_hostile_program_had_no_room_for_is_the_victim_s() -> None:
    """A program that has used up its share runs what others run: their stacks, the same as its own, are theirs."""
    head, head_of = Head(), deep([HOSTILE], 5000, 200)
    head.ring(0, 1.0, *began(VICTIM, "victim", LONG), *began(HOSTILE, "evil", LONG))
    for second, samples in enumerate(head_of):
        head.ring(0, 2.0 + second, *samples)
    same = [CODE + 8 * (it % 199) for it in range(DEEP)]
    head.ring(0, 40.0, ran(HOSTILE, 39.0, *same), ran(VICTIM, 39.5, *same))
    mine, its = (next(it for it in rows(settled(head.bytes(), META))[::-1] if it["pid"] == pid) for pid in (100, 500))
    assert its["frames"] == [stack_names.TOO_MANY] and len(mine["frames"]) == DEEP


def thread_named(pid: int, tid: int, at: float, comm: str) -> bytes:
    end = trailer(pid, at)
    return record(3, struct.pack("<ii", pid, tid) + padded(comm.encode()) + struct.pack("<ii", pid, tid) + end[8:])


def test_seventy_thousand_threads_take_no_other_name() -> None:
    """One process names so many threads that the names of those that were there before are forgotten."""
    head = Head()
    head.ring(0, 1.0, *began(VICTIM, "victim", "/bin/victim"), *began(HOSTILE, "evil", "/bin/evil"))
    head.ring(0, 2.0, ran(VICTIM, 1.5, CODE), ran(HOSTILE, 1.6, CODE))
    head.ring(0, 3.0, *(thread_named(HOSTILE, 10_000 + it, 2 + it / 100_000, f"t{it}") for it in range(70_000)))
    head.ring(0, 50.0, ran(VICTIM, 49.0, CODE), ran(HOSTILE, 49.1, CODE))
    found = settled(head.bytes(), META)
    assert [it["comm"] for it in rows(found)] == ["victim", "evil", "victim", "evil"]
    assert found.carry.comms[VICTIM] == "victim" and len(found.carry.comms) <= 16_384
    assert any("names of threads of evil (pid 500) were forgotten" in it for it in troubles(found))


def test_forty_thousand_mappings_of_one_process_leave_the_next_head_those_of_others() -> None:
    """One process maps so many files that the next segment begins without anybody's."""
    head = Head()
    head.ring(0, 1.0, *began(VICTIM, "victim", "/bin/victim"), *began(HOSTILE, "evil", "/bin/evil"))
    many = (mapped(HOSTILE, 1.5, CODE * 2 + (it << 16), "/bin/evil", length=4096) for it in range(40_001))
    head.ring(0, 2.0, *many, ran(VICTIM, 1.6, CODE), ran(HOSTILE, 1.7, CODE))
    assert VICTIM in {pid for pid, *_ in settled(head.bytes(), META).carry.mappings}


def test_thousands_of_dead_cgroups_leave_the_next_head_the_paths_of_others() -> None:
    """One creates cgroups without end: the path of one that was there before, and has work, is known in the next."""
    head = Head()
    made = [record(19, struct.pack("<Q", it + 10) + padded(b"/evil/%d" % it) + trailer(1, 0.2)) for it in range(5000)]
    first = record(19, struct.pack("<Q", 1) + padded(b"/kubepods/victim") + trailer(1, 0.1))
    head.ring(0, 1.0, first, *made, *began(VICTIM, "victim", "/bin/victim"), ran(VICTIM, 0.5, CODE, cgroup=1))
    assert settled(head.bytes(), META).carry.cgroups[1] == "/kubepods/victim"


def test_half_a_million_readings_of_one_kind_leave_room_for_the_others() -> None:
    """What a program makes long (a series for each of its things) costs that series, no other one."""
    head = Head()
    for at in range(25):
        head.sample("evil", float(at), [("evil", f"thing:{at}:{it}", 1.0, AT + at, "/x", "") for it in range(20_000)])
    head.sample("victim", 30.0, [("pressure", "node", 0.5, AT + 30, "/proc/pressure/cpu", "")])
    found = settled(head.bytes(), {**META, "events": []})
    assert "pressure" in {it["what"] for it in found.table("series").to_pylist()}
    assert any("readings of evil were left out" in it for it in troubles(found))


PROGRAM = """
#include <unistd.h>
#include <sys/syscall.h>
typedef void step(unsigned long, int);
static step *steps[64];
static void go(unsigned long seed, int left) {
    if (left > 0) { steps[seed >> 33 & 63](seed * 6364136223846793005UL + 1, left - 1); }
    else for (int it = 0; it < 20000; it++) syscall(SYS_getppid);
    __asm__ volatile("");
}
"""


@pytest.mark.kernel
@pytest.mark.beside
def test_a_real_program_with_names_of_four_thousand_characters(tmp_path: Path) -> None:
    """Each function has a name of 4,000 characters, and each stack a hundred of them: 500 are 200 MB."""
    if shutil.which("gcc") is None:
        pytest.skip(CANNOT + "compile the hostile program: no gcc")
    names = [f"f{it:02}" + "x" * 3997 for it in range(64)]
    functions = "".join(
        f'__attribute__((noinline)) void {it}(unsigned long s, int n) {{ go(s, n); __asm__ volatile(""); }}\n'
        for it in names
    )
    steps = "".join(f"steps[{place}] = {it};" for place, it in enumerate(names))
    main = f"int main(void) {{ {steps} for (unsigned long s = 1;; s++) go(s * 2654435761UL, 50); }}"
    flags = ("-O0", "-fno-omit-frame-pointer", "-x", "c", "-o", tmp_path / "evil", "-")
    subprocess.run(["gcc", *flags], input=PROGRAM + functions + main, text=True, check=True)
    with subprocess.Popen([tmp_path / "evil"]) as evil:
        try:
            look = short.record(Host(), 3.0, hz=499, only=())
            if not look.meta["hz"]:
                pytest.skip(CANNOT + "sample")
            found = settled(look.head, look.meta, host=Host())
        finally:
            evil.kill()
    theirs = [it for it in rows(found) if it["pid"] == evil.pid]
    assert len({it["stack"] for it in theirs}) > 50
    longest = {name for it in theirs for name in it["frames"] if name.startswith("f")}
    assert {len(it) for it in longest} >= {stack_names.LONGEST}, "they are cut"
    assert all(len(it) <= stack_names.LONGEST and (len(it) < 200 or it.endswith(stack_names.CUT)) for it in longest)
    assert any(it["kernel_frames"] for it in theirs)
    assert sum(len(name) for it in found.table("stacks").to_pylist() for name in it["frames"]) < 100 << 20
