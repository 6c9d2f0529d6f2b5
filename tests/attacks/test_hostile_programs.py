"""Programs that lie about their own tables: whoever names their functions reads no more than a table can have.

All are files of some kilobytes on disk, and gigabytes by their own account. They run, or are mapped by what runs.
"""

from __future__ import annotations

import lzma
import os
import re
import struct
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.naming.elf_file import ElfFile, Symbol
from tests.naming.programs import compiled, needs_root, running

pytestmark = pytest.mark.beside

GIGABYTE = 1 << 30
MOST_MORE = 30 << 20  # bytes of memory, against the same with an honest file
# Says where its main function is, and stays.
STAYS = """
#include <stdio.h>
#include <unistd.h>
int main(void) { printf("%lx\\n", (unsigned long)main + 4); fflush(stdout); for (;;) sleep(1); }
"""
# Maps a file as a program's code is mapped, says where, and stays.
MAPS = """
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <unistd.h>
int main(int count, char **words) {
  char *at = mmap(0, 0x2000, PROT_READ | PROT_EXEC, MAP_PRIVATE, open(words[1], O_RDONLY), 0);
  printf("%lx\\n", (unsigned long)at + 0x1004); fflush(stdout);
  for (;;) sleep(1);
}
"""
# As the recorder names a sample, in a process of its own: the name, and the most memory that it took.
NAMES = r"""
import re, sys, time
from zombiescope.naming.namer import Namer
namer, pid, address = Namer(), int(sys.argv[1]), int(sys.argv[2], 16)
namer.feed([])
namer.see([pid], time.monotonic_ns())
end = time.monotonic() + 60
while True:
    name, final = namer.user(pid, address, time.monotonic_ns())
    if final or time.monotonic() > end:
        break
    time.sleep(0.05)
print(name, 1024 * int(re.search(r"VmHWM:\s+(\d+)", open("/proc/self/status").read())[1]))
"""


def named(pid: int, address: str) -> tuple[str, int]:
    """A function's name, and the peak of memory of the process that found it."""
    done = subprocess.run([sys.executable, "-c", NAMES, str(pid), address], capture_output=True, text=True, check=True)
    name, peak = done.stdout.split()
    return name, int(peak)


def library(change: Callable[[bytearray], None] | None, **more: bytes) -> bytes:
    """A file with one function, `honest`, at the start of its code; then changed."""
    function = Symbol(name="honest", value=0x401000, size=0x800)
    raw = bytearray(ElfFile(symbols=(function,), more={f".{name}": data for name, data in more.items()}).written())
    if change is not None:
        change(raw)
    return bytes(raw)


def set_section(raw: bytearray, number: int, *, offset: int, size: int, entry: int) -> None:
    (table,) = struct.unpack_from("<Q", raw, 40)
    struct.pack_into("<QQ", raw, table + 64 * number + 24, offset, size)
    struct.pack_into("<Q", raw, table + 64 * number + 56, entry)


def large_section_headers(raw: bytearray) -> None:
    """65,535 bytes each, in the hole."""
    struct.pack_into("<Q", raw, 40, len(raw))
    struct.pack_into("<HH", raw, 58, 0xFFFF, 16_384)


def large_program_headers(raw: bytearray) -> None:
    struct.pack_into("<Q", raw, 32, len(raw))
    struct.pack_into("<HH", raw, 54, 0xFFFF, 16_384)


def large_symbols(raw: bytearray) -> None:
    set_section(raw, 2, offset=len(raw), size=GIGABYTE, entry=0xFFFF)


def many_symbols(raw: bytearray) -> None:
    set_section(raw, 2, offset=len(raw), size=GIGABYTE, entry=24)


def many_names(raw: bytearray) -> None:
    """The honest table of names goes on as the hole."""
    (table,) = struct.unpack_from("<Q", raw, 40)
    (begin,) = struct.unpack_from("<Q", raw, table + 64 * 3 + 24)
    set_section(raw, 3, offset=begin, size=GIGABYTE, entry=0)


def bomb() -> bytes:
    """Mini debug information that unpacks to an ELF file of 256 MB, with all that it claims in the first 16."""
    inner = library(None)
    packing = lzma.LZMACompressor(lzma.FORMAT_XZ, preset=0)
    return packing.compress(inner) + packing.compress(bytes(256 << 20)) + packing.flush()


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    needs_root()
    return compiled(MAPS, tmp_path_factory.mktemp("loader") / "loader")


@pytest.fixture(scope="module")
def usual(loader: Path) -> int:
    """The peak of memory with an honest file."""
    path = loader.with_name("honest.so")
    path.write_bytes(library(None))
    with running(loader, path) as (process, (address,)):
        name, peak = named(process.pid, address)
    assert name == "honest"
    return peak


@pytest.mark.parametrize(
    "change",
    [large_section_headers, large_program_headers, large_symbols, many_symbols, many_names],
    ids=lambda it: it.__name__,
)
def test_a_mapped_file_whose_tables_claim_gigabytes(
    change: Callable[[bytearray], None], loader: Path, usual: int, tmp_path: Path
) -> None:
    """A program maps a file of 16 KB on disk whose headers, symbols or names claim 1 GB."""
    path = tmp_path / "hostile.so"
    path.write_bytes(library(change))
    os.truncate(path, GIGABYTE)
    assert path.stat().st_blocks * 512 < 64 << 10
    with running(loader, path) as (process, (address,)):
        _, peak = named(process.pid, address)
    assert peak - usual < MOST_MORE, f"{(peak - usual) >> 20} MB more than {usual >> 20} MB"


def test_a_mapped_file_whose_debug_information_is_a_bomb(loader: Path, usual: int, tmp_path: Path) -> None:
    """Mini debug information of 40 KB unpacks to 256 MB."""
    path = tmp_path / "hostile.so"
    path.write_bytes(ElfFile(symbols=(), more={".gnu_debugdata": bomb()}).written())
    with running(loader, path) as (process, (address,)):
        _, peak = named(process.pid, address)
    assert peak - usual < MOST_MORE, f"{(peak - usual) >> 20} MB more than {usual >> 20} MB"


def test_a_running_program_whose_section_headers_claim_gigabytes(tmp_path: Path) -> None:
    """A program of 16 KB on disk runs whose 16,384 section headers have 65,535 bytes each, in a hole of 1 GB."""
    needs_root()
    honest, hostile = compiled(STAYS, tmp_path / "honest"), tmp_path / "hostile"
    raw = bytearray(honest.read_bytes())
    large_section_headers(raw)
    hostile.write_bytes(raw)
    hostile.chmod(0o755)
    os.truncate(hostile, GIGABYTE)
    assert hostile.stat().st_blocks * 512 < 64 << 10
    with running(honest) as (process, (address,)):
        name, before = named(process.pid, address)
    assert name == "main"
    with running(hostile) as (process, (address,)):
        name, peak = named(process.pid, address)
    assert re.fullmatch(r"hostile\+0x[0-9a-f]+", name)
    assert peak - before < MOST_MORE, f"{(peak - before) >> 20} MB more than {before >> 20} MB"
