"""User stacks from registers and a copy of the stack: a program without frame pointers, damaged files, none at all."""

from __future__ import annotations

import os
import random
import re
import shutil
import struct
import subprocess
from pathlib import Path

import pytest
from tests import fuzzing
from tests.profile.perf_data_file import KERNEL, PLAIN, PerfData, attr
from tests.profile.test_perf_data import WORK

from zombiescope.cli._sources import opened
from zombiescope.core.samples import Samples
from zombiescope.naming.contents import Held
from zombiescope.naming.kallsyms_text import KallsymsText
from zombiescope.naming.perf_map import PerfMap
from zombiescope.naming.symbols import Symbols
from zombiescope.profile import perf_data
from zombiescope.profile.unwind_program import Reader, value
from zombiescope.profile.unwind_tables import Tables

REGS_USER, STACK_USER = 1 << 12, 1 << 13
PROGRAM = """
#include <alloca.h>
#include <string.h>
#include <time.h>
volatile unsigned long sum;
#define APART __attribute__((noinline))
APART void innermost(int n) { for (int i = 0; i < n; i++) sum += i * n; }
APART void with_alloca(int n) { char *p = alloca(n); memset(p, n, n); innermost(20000); sum += p[n / 2]; }
APART int deeper(int n) { if (n) { int d = deeper(n - 1); return d + 1; } with_alloca(300); return 0; }
int main(void) { time_t end = time(0) + 2; while (time(0) < end) sum += deeper(5); return 0; }
"""


def recorded(folder: Path) -> Path:
    if not shutil.which("perf") or not shutil.which("gcc"):
        pytest.skip("this machine cannot: perf or gcc is not installed")
    (folder / "x.c").write_text(PROGRAM)
    flags = ["-O2", "-fomit-frame-pointer", "-fno-optimize-sibling-calls", "-fno-inline"]
    subprocess.run(["gcc", *flags, "-o", f"{folder}/nested", f"{folder}/x.c"], check=True)
    argv = ["perf", "record", "-q", "--buildid-mmap", "-F", "499", "--call-graph", "dwarf", "-o", f"{folder}/perf.data"]
    done = subprocess.run([*argv, f"{folder}/nested"], capture_output=True)
    if done.returncode:
        pytest.skip(f"perf record does not work here: {done.stderr.decode(errors='replace')[-200:]}")
    return folder / "perf.data"


def user_stacks(capture: Samples) -> list[list[str]]:
    stacks = [[it.name for it in capture.frames[stack] if not it.kernel] for stack in capture.stack.tolist()]
    return [it for it in stacks if "innermost" in it]


def printed(path: Path) -> list[list[str]]:
    """The same as perf unwinds it."""
    argv = ["perf", "script", "--no-inline", "-F", "time,ip,sym,dso", "-i", str(path)]
    text = subprocess.run(argv, capture_output=True, text=True, check=True).stdout
    frames = [re.findall(r"^\s+[0-9a-f]+ (.*) \(([^()]*)\)$", it, re.MULTILINE) for it in text.split("\n\n")]
    stacks = [[name for name, file in reversed(it) if not file.startswith("[kernel")] for it in frames]
    return [it for it in stacks if "innermost" in it]


@pytest.mark.kernel
@pytest.mark.beside
def test_a_program_without_frame_pointers(tmp_path: Path) -> None:
    path = recorded(tmp_path)
    found = user_stacks(opened(str(path)).capture)
    theirs = printed(path)
    assert len(theirs) == len(found)
    assert sum(a == b for a, b in zip(theirs, found, strict=True)) >= 0.99 * len(found), (theirs[0], found[0])
    want = ["main", *["deeper"] * 6, "with_alloca", "innermost"]
    whole = [it for it in found if it[-len(want) :] == want]
    assert len(found) > 100 and len(whole) >= 0.99 * len(found), [it for it in found if it not in whole][:3]
    assert sum(it[0] == "_start" for it in whole) >= 0.99 * len(whole), whole[0]
    os.unlink(tmp_path / "nested")
    cut = opened(str(path)).capture
    assert any("user stacks are cut" in note and "nested" in note for note in cut.notes), cut.notes


def program() -> bytes:
    return Path(os.path.realpath("/bin/true")).read_bytes()


def starts_of(tables: Tables) -> list[int]:
    return [tables._base + it for it in tables._starts.tolist()]


def test_tables_of_a_real_program() -> None:
    tables = Tables(Held(program()), "true")
    if not tables:
        pytest.skip("this machine cannot: /bin/true is not a 64-bit x86 program")
    assert tables.build_id and all(tables.rules(it) for it in starts_of(tables))
    assert not Tables(Held(b""), "x") and not Tables(Held(b"\x7fELF" + bytes(100)), "x")


def test_a_thousand_damaged_programs() -> None:
    whole = program()

    def read(_: bytes, data: bytes, random_: random.Random) -> bool:
        tables = Tables(Held(data), "fuzz")
        for _each in range(20):
            tables.rules(random_.choice(starts_of(tables) or [0]) + random_.randrange(200))
        return bool(tables)

    def crooked(changed: bytearray, at: int, random_: random.Random) -> None:
        at = random_.choice((random_.randrange(800), at))
        changed[at : at + 4] = random_.choice((b"\xff" * 4, bytes(4), b"\x7f\xff\xff\x7f", b"\x0f\x10\x16\x0a"))

    still = fuzzing.tried(
        1000, 5, [whole], lambda it, random_: fuzzing.damaged(it, random_, crooked, in_place=True), read
    )
    assert still > 0


def test_expressions() -> None:
    def memory(address: int) -> int | None:
        return 77 if address == 8 else None

    plt = bytes([0x77, 8, 0x80, 0, 0x3F, 0x1A, 0x3B, 0x2A, 0x33, 0x24, 0x22])  # of every .plt entry
    assert value(plt, {7: 1000, 16: 0x40100B}, memory, None) == 1000 + 8 + 8
    assert value(plt, {7: 1000, 16: 0x401000}, memory, None) == 1000 + 8
    assert value(b"\x38\x06", {}, memory, None) == 77 and value(b"\x39\x06", {}, memory, None) is None
    for damaged in (b"\x06", b"\x70", b"\xff", b"\x12", b"\x30" * 500, b"\x77" + b"\x80" * 20):
        assert value(damaged, {7: 1}, memory, None) is None
    assert Reader(b"\x7f", 0).signed() == -1


def copied(seed: int = 0) -> PerfData:
    """Samples with registers and a copy of the stack, whole and cut short."""
    asked = PLAIN | REGS_USER | STACK_USER
    made = PerfData(asked)
    made.comm(0, 7, b"true")
    made.mmap(0, 7, 0x400000, 0x8000, 0, b"/bin/true")
    random_ = random.Random(seed)
    for at in range(8):
        registers = [0x400000 + random_.randrange(0x6000) for _ in range(17)]
        registers[7] = 0x7FFF0000
        stack = [random_.choice((0, 0x401000 + at, 0x7FFF0010)) for _ in range(16)]
        made.sample(at, KERNEL, WORK, behind=[2, *registers, 128, *stack, 128][: 99 if at < 6 else at])
    return made


def with_registers() -> list[tuple[bytes, list[int]]]:
    event = attr(sample_type=PLAIN | REGS_USER | STACK_USER)
    return [(event[:80] + struct.pack("<Q", 0xFF01FF) + event[88:], [1])]


def test_code_without_tables_is_walked_by_its_frame_pointers() -> None:
    """Two functions of a just-in-time compiler, called from where no program is; and a file that is missing."""
    made, stack_at = PerfData(PLAIN | REGS_USER | STACK_USER), 0x7FFF0000
    made.comm(0, 7, b"node")
    made.mmap(0, 7, 0x10000, 0x1000, 0, b"//anon")
    made.mmap(0, 7, 0x20000, 0x1000, 0, b"/bin/gone")
    frames = {0: stack_at + 32, 8: 0x10100, 32: stack_at + 48, 40: 0x10200, 48: stack_at + 64, 56: 0x99999}
    stack = [frames.get(at, 0) for at in range(0, 128, 8)]
    for at, ip in enumerate((0x10010, 0x20010, 0x30010)):
        registers = [0] * 17
        registers[6], registers[7], registers[8] = stack_at, stack_at - 8, ip
        made.sample(at, KERNEL, WORK, behind=[2, *registers, 128, 0, *stack[:-1], 128])
    data = made.file(with_registers())
    found = perf_data.capture(
        lambda at, size: data[at : at + size],
        len(data),
        lambda *_: KallsymsText(b"ffffffff81000000 T _text\n"),
        lambda kernel: Symbols(kernel, perf_maps={7: PerfMap.parse(b"10000 80 in\n100f0 40 mid\n101f0 40 out\n")}),
        open_file=lambda *_: None,
    )
    names = [[it.name for it in found.frames[stack] if not it.kernel] for stack in found.stack.tolist()]
    assert names == [["out", "mid", "in"], ["[gone]"], ["[unknown]"]]
    cut = [note for note in found.notes if "are cut" in note]
    assert cut == ["1 user stacks are cut: /bin/gone is not here, or is another build"]


def test_samples_with_damaged_stacks() -> None:
    seeds = [copied(seed).file(with_registers()) for seed in range(5)]
    contents = program()

    def read(_: bytes, data: bytes, __: random.Random) -> bool:
        from zombiescope.core.errors import Unparsable

        try:
            found = perf_data.capture(
                lambda at, size: data[at : at + size],
                len(data),
                lambda *_: KallsymsText(b"ffffffff81000000 T _text\n"),
                lambda kernel: Symbols(kernel),
                open_file=lambda *_: Held(contents),
            )
        except Unparsable:
            return False
        return len(found.frames) == len(found.idle)

    def crooked(changed: bytearray, at: int, random_: random.Random) -> None:
        at &= ~7
        words = (0, 2, 1 << 63, (1 << 64) - 1, 0x401000)
        changed[at : at + 8] = random_.choice(words).to_bytes(8, "little")

    damage = lambda it, random_: fuzzing.damaged(it, random_, crooked, skip=300, in_place=True)  # noqa: E731
    assert all(read(b"", it, random.Random()) for it in seeds)
    assert fuzzing.tried(600, 3, seeds, damage, read) > 0
