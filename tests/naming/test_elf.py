"""ELF files: written by hand in every class and order, compiled, of this machine with binutils as witness, damaged."""

from __future__ import annotations

import itertools
import lzma
import random
import re
import shutil
import struct
import subprocess
import sys
import time
from collections import defaultdict
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.naming import fuzz_elf
from tests.naming.elf_file import IFUNC, LOCAL, OBJECT, TEXT_ADDRESS, TEXT_OFFSET, WEAK, ElfFile, Symbol

from zombiescope.core.errors import Unparsable
from zombiescope.naming.demangled import demangled
from zombiescope.naming.elf import Elf

BY_HAND = (
    Symbol(name="first", value=TEXT_ADDRESS, size=0x10),
    Symbol(name="weak_first", value=TEXT_ADDRESS, size=0x10, bind=WEAK),
    Symbol(name="choose_memcpy", value=TEXT_ADDRESS + 0x20, size=0x10, kind=IFUNC),
    Symbol(name="outer", value=TEXT_ADDRESS + 0x100, size=0x100),
    Symbol(name="inner", value=TEXT_ADDRESS + 0x140, size=0x10, bind=LOCAL),
    Symbol(name="unsized", value=TEXT_ADDRESS + 0x300, size=0),
    Symbol(name="unsized_last", value=TEXT_ADDRESS + 0x700, size=0),
    Symbol(name="variable", value=TEXT_ADDRESS + 0x400, size=0x10, kind=OBJECT),
    Symbol(name="imported", value=TEXT_ADDRESS + 0x500, size=0x10, section=0),
    Symbol(name="caf\udce9", value=TEXT_ADDRESS + 0x600, size=0x10),
)
NAMES = {
    0x0: "first",
    0xF: "first",
    0x10: None,
    0x20: "choose_memcpy",
    0x30: None,
    0x13F: "outer",
    0x140: "inner",
    0x150: "outer",
    0x1FF: "outer",
    0x200: None,
    0x300: "unsized",
    0x500: "unsized",
    0x5FF: "unsized",
    0x600: "caf\udce9",
    0x610: None,
    0x7FF: "unsized_last",
    0x800: None,
}


def real_files() -> list[Path]:
    python = Path(sys.executable).resolve()
    extensions = sorted(Path(np.__file__).parent.rglob("*.so"))
    named = [python, Path("/bin/bash"), *Path("/usr/bin").glob("python3.[0-9]*[0-9]")]
    libraries = [path for folder in ("/lib", "/usr/lib", "/lib64") for path in Path(folder).glob("*/libc.so.6")]
    found = {path.resolve(): path for path in [*named, *libraries, Path("/lib64/libc.so.6"), *extensions]}
    return [path for path in found if path.exists()]


def witness(*command: str) -> str:
    if not shutil.which(command[0]):
        pytest.skip(f"this machine cannot: {command[0]} (binutils) is not installed")
    done = subprocess.run(command, capture_output=True, text=True, errors="surrogateescape", env={"LC_ALL": "C"})
    return done.stdout


@pytest.mark.parametrize(("bits", "order", "section"), list(itertools.product((64, 32), "<>", (True, False))))
def test_every_class_and_byte_order(bits: int, order: str, section: bool) -> None:
    written = ElfFile(symbols=BY_HAND, bits=bits, order=order, note_in_section=section).written()
    elf = Elf.parse(written)
    assert elf.build_id == bytes(range(20)).hex()
    offsets = np.array([TEXT_OFFSET + into for into in NAMES], dtype=np.uint64)
    assert dict(zip(NAMES, elf.names(offsets), strict=True)) == NAMES
    assert [elf.name(TEXT_OFFSET + into) for into in NAMES] == list(NAMES.values())
    assert Elf.parse(memoryview(bytearray(written))).functions == elf.functions
    assert elf.name(0) is elf.name(-1) is elf.name(1 << 64) is None


def test_thumb_functions_begin_at_the_even_address() -> None:
    thumb = (Symbol(name="thumb", value=TEXT_ADDRESS + 1, size=8),)
    elf = Elf.parse(ElfFile(symbols=thumb, bits=32, machine=40).written())
    assert elf.functions == [(TEXT_ADDRESS, 8, "thumb")]


def test_a_beginning_of_a_file_still_has_its_build_id_or_less() -> None:
    written = ElfFile(symbols=BY_HAND).written()
    assert len(Elf.parse(written[:-64])) == len(Elf.parse(written))  # the last section header holds no symbols
    assert Elf.parse(written[: written.index(bytes(range(20))) + 20]).build_id == bytes(range(20)).hex()
    assert Elf.parse(written[:4096]).name(TEXT_OFFSET) is None


def test_mini_debug_information_names_what_was_stripped() -> None:
    inner = ElfFile(symbols=BY_HAND).written()
    packed = lzma.compress(inner, lzma.FORMAT_XZ)
    elf = Elf.parse(ElfFile(symbols=(), more={".gnu_debugdata": packed}).written())
    assert elf.name(TEXT_OFFSET) == "first"
    for damaged in (packed[:-40], b"", b"\x7fELF", packed[:30] + b"x" + packed[31:], lzma.compress(b"\x7fELFx")):
        assert Elf.parse(ElfFile(symbols=(), more={".gnu_debugdata": damaged}).written()).name(TEXT_OFFSET) in (
            None,
            "first",
        )
    bomb = lzma.compress(inner + bytes(100 << 20), lzma.FORMAT_XZ, preset=0)
    assert Elf.parse(ElfFile(symbols=(), more={".gnu_debugdata": bomb}).written()).memory < 1 << 20


def test_a_debug_file_names_the_file_it_was_made_from() -> None:
    stripped = Elf.parse(ElfFile(symbols=()).written())
    named = stripped.named_by(Elf.parse(ElfFile(symbols=BY_HAND).written()))
    assert (stripped.name(TEXT_OFFSET), named.name(TEXT_OFFSET)) == (None, "first")


@pytest.mark.parametrize("path", real_files(), ids=lambda path: path.name)
def test_functions_are_those_readelf_sees(path: Path) -> None:
    data = path.read_bytes()
    elf = Elf.parse(data)
    expected: dict[int, set[str]] = defaultdict(set)
    sizes: dict[int, set[int]] = defaultdict(set)
    for line in witness("readelf", "-sW", str(path)).splitlines():
        row = line.split()
        if len(row) >= 8 and row[3] in ("FUNC", "IFUNC") and row[6] != "UND" and int(row[1], 16):
            address = int(row[1], 16)
            expected[address].add(demangled(row[7].split("@")[0]))
            sizes[address].add(int(row[2], 0))
    assert len(expected) > 5
    shift = {}
    for line in witness("readelf", "-lW", str(path)).splitlines():
        load = re.match(r"\s+LOAD\s+(0x\w+) (0x\w+) 0x\w+ (0x\w+) 0x\w+ .*E", line)
        if load:
            offset, address, size = (int(text, 16) for text in load.groups())
            shift[range(address, address + size)] = offset - address
    checked = 0
    for address, names in expected.items():
        move = next((move for segment, move in shift.items() if address in segment), None)
        if move is not None:
            found = elf.name(address + move)
            assert found is not None and found.split("@")[0] in names, hex(address)
            checked += 1
            biggest = max(sizes[address])
            if min(sizes[address]):
                another = expected.get(address + biggest, set())  # of the same name, with other parameters
                assert elf.name(address + move + biggest) not in names - another
    assert checked > 5
    assert {start for start, _, _ in elf.functions} >= {start for start in expected if max(sizes[start])}


@pytest.mark.parametrize("path", real_files(), ids=lambda path: path.name)
def test_the_build_id_is_the_one_readelf_sees(path: Path) -> None:
    said = re.search(r"Build ID: (\w+)", witness("readelf", "-n", str(path)))
    assert Elf.parse(path.read_bytes()).build_id == (said[1] if said else "")
    assert Elf.parse(path.read_bytes()[:8192]).build_id in ("", said[1] if said else "")


@pytest.mark.parametrize("path", real_files(), ids=lambda path: path.name)
def test_stubs_are_those_objdump_sees(path: Path) -> None:
    elf, checked = Elf.parse(path.read_bytes()), 0
    text = witness("objdump", "-d", "-j", ".plt", "-j", ".plt.sec", "--no-show-raw-insn", "-F", str(path))
    for name, offset in re.findall(r"<(\S+?)@plt> \(File Offset: (0x\w+)\):", text):
        found = elf.name(int(offset, 16))
        if found is not None:  # under IBT, stubs of .plt only push a number
            assert found.split("@")[0] == demangled(name.split("@")[0]) and found.endswith("@plt")
            assert elf.names(np.array([int(offset, 16) + 5], np.uint64)) == [found]
            checked += 1
    assert checked or "@plt>" not in text


def test_a_label_of_assembly_is_named_where_no_function_is(tmp_path: Path) -> None:
    if not shutil.which("gcc"):
        pytest.skip("this machine cannot: gcc is not installed")
    (tmp_path / "x.s").write_text(
        ".text\n.type real,@function\nreal: nop\ninner: nop\n.size real,.-real\n.globl by_hand\nby_hand: nop\nret\n"
        ".data\nnumber: .quad 1\n"
    )
    subprocess.run(["gcc", "-shared", "-nostdlib", "-o", tmp_path / "x", tmp_path / "x.s"], check=True)
    elf = Elf.parse((tmp_path / "x").read_bytes())
    real = next(start for start, _, name in elf.functions if name == "real")
    offsets = {name: offset for offset in range(real, real + 4) if (name := elf.name(offset))}
    assert offsets == {"real": real + 1, "by_hand": real + 3}


@pytest.mark.parametrize("flags", [("-no-pie",), ("-pie", "-fPIE"), ("-pie", "-fPIE", "-Wl,-z,noseparate-code")])
def test_a_compiled_function_ends_where_it_ends(flags: tuple[str, ...], tmp_path: Path) -> None:
    if not shutil.which("gcc"):
        pytest.skip("this machine cannot: gcc is not installed")
    source, program = tmp_path / "walk.c", tmp_path / "walk"
    source.write_text(
        "#include <stdio.h>\n#include <string.h>\n"
        "__attribute__((noinline, aligned(256))) int walk_cgroups(int n) {\n"
        "  int s = 0; while (n--) s += n * n; return s; }\n"
        "extern char __executable_start;\n"
        "__attribute__((aligned(256))) int main(void) {\n"
        '  printf("%lx %d\\n", (unsigned long)((char *)walk_cgroups - &__executable_start), walk_cgroups(3)); }\n'
    )
    subprocess.run(["gcc", "-O1", *flags, "-Wl,--build-id=sha1", "-o", program, source], check=True)
    # The program itself tells where the function is, from the start of its image: the file's first byte.
    offset = int(subprocess.run([program], capture_output=True, text=True, check=True).stdout.split()[0], 16)
    elf = Elf.parse(program.read_bytes())
    size = next(size for _, size, name in elf.functions if name == "walk_cgroups")
    assert 8 < size < 200
    assert elf.name(offset) == elf.name(offset + size - 1) == "walk_cgroups"
    assert elf.name(offset + size) is None
    assert elf.name(offset - 1) != "walk_cgroups"
    assert len(elf.build_id) == 40


def test_a_library_is_read_in_milliseconds() -> None:
    for path in real_files():
        data = path.read_bytes()
        before = time.process_time()
        Elf.parse(data)
        assert time.process_time() - before < 0.5, path


@pytest.mark.parametrize("data", [b"", b"\x7fELF", b"\x7fELF" + bytes(60), b"#!/bin/sh\n" * 20, bytes(4096)])
def test_what_is_no_elf_file_is_refused(data: bytes) -> None:
    with pytest.raises(Unparsable):
        Elf.parse(data)


def survives(data: bytes) -> None:
    try:
        elf = Elf.parse(data, "damaged")
    except Unparsable:
        return
    offsets = np.array([0, 64, TEXT_OFFSET, TEXT_OFFSET + 0x141, (1 << 64) - 1], dtype=np.uint64)
    assert len(elf.names(offsets)) == 5
    assert len(elf.functions) <= 2 * len(elf) + 1
    assert elf.memory < 10 * len(data) + 4096


@pytest.mark.parametrize(("bits", "order"), list(itertools.product((64, 32), "<>")))
def test_ten_thousand_mutations(bits: int, order: str) -> None:
    written, dice = ElfFile(symbols=BY_HAND, bits=bits, order=order).written(), random.Random(bits)
    tables = TEXT_OFFSET + 0x800
    for _ in range(2_500):
        hostile = bytearray(written)
        for _ in range(dice.randint(1, 6)):
            place = dice.randrange(200) if dice.random() < 0.3 else dice.randrange(tables, len(written))
            hostile[place] = dice.choice((0, 1, 2, 127, 128, 255, dice.randrange(256)))
        survives(bytes(hostile[: dice.randrange(len(hostile))] if dice.random() < 0.2 else hostile))


def test_a_thousand_damaged_files() -> None:
    """In memory, and on disk with a hole behind; `python -m tests.naming.fuzz_elf 100000` for more."""
    assert fuzz_elf.fuzz(1_000, 3)


@settings(deadline=None, max_examples=300)
@given(st.binary(min_size=48, max_size=1200), st.sampled_from((1, 2)), st.sampled_from((1, 2)))
def test_any_bytes_behind_the_magic(rest: bytes, size: int, order: int) -> None:
    survives(b"\x7fELF" + bytes((size, order)) + rest)


# Every section claims to be a note, or a symbol table, of the whole file: the work must not be their product.
@pytest.mark.parametrize("kind", [2, 7, 11])
def test_many_greedy_sections_cost_no_more_than_one(kind: int) -> None:
    count, size = 60_000, 64 * 60_000
    header = struct.pack(
        "<4sBBBB8xHHIQQQIHHHHHH", b"\x7fELF", 2, 1, 1, 0, 3, 62, 1, 0, 0, 64, 0, 64, 56, 0, 64, count, 0
    )
    section = struct.pack("<IIQQQQIIQQ", 1, kind, 0, 0, 0, size, 1, 0, 4, 24)
    strings = struct.pack("<IIQQQQIIQQ", 1, 3, 0, 0, 0, size, 1, 0, 4, 0)
    before = time.process_time()
    survives(header + section + strings + section * (count - 2))
    assert time.process_time() - before < 5
