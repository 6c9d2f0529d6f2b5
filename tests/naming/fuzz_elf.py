"""ELF files damaged at random: each is read within bounds of time and memory, or refused.

python -m tests.naming.fuzz_elf 100000 [seed]
"""

from __future__ import annotations

import itertools
import lzma
import os
import random
import resource
import struct
import tempfile
from contextlib import closing
from pathlib import Path

import numpy as np
from tests import fuzzing
from tests.naming.elf_file import TEXT_ADDRESS, TEXT_OFFSET, ElfFile, Symbol

from zombiescope.core.errors import Unparsable
from zombiescope.naming.contents import Held, OnDisk
from zombiescope.naming.elf import Elf
from zombiescope.profile.unwind_tables import Tables

MOST_MEMORY = 200 << 20  # bytes more than it has when it begins
SPARSE = 1 << 30
SYMBOLS = tuple(
    Symbol(name=f"function_{number}", value=TEXT_ADDRESS + 0x10 * number, size=0x10 + number % 3)
    for number in range(40)
)
FIELDS = (32, 40, 54, 56, 58, 60, 62)  # of a 64-bit header: where tables are, sizes and numbers of their records
NUMBERS = (0, 1, 24, 56, 64, 0x7FFF, 0xFFFF, 1 << 20, (1 << 31) - 1, (1 << 32) - 1, (1 << 63) - 1, (1 << 64) - 1)


def seeds() -> list[bytes]:
    made = [
        ElfFile(symbols=SYMBOLS, bits=bits, order=order).written() for bits, order in itertools.product((64, 32), "<>")
    ]
    packed = lzma.compress(made[0], lzma.FORMAT_XZ)
    return [*made, ElfFile(symbols=(), more={".gnu_debugdata": packed}).written(), *real()]


def real() -> list[bytes]:
    paths = (Path("/bin/true"), Path("/lib/x86_64-linux-gnu/libdl.so.2"))
    return [path.read_bytes() for path in paths if path.exists()]


def crooked(changed: bytearray, at: int, random_: random.Random) -> None:
    """A number of the header or of a section, which says how much there is."""
    at = random_.choice((random_.choice(FIELDS), at & ~7, len(changed) - 8 * random_.randrange(1, 64)))
    number = random_.choice(NUMBERS)
    form = random_.choice("HIQ")
    if 0 <= at <= len(changed) - 8:
        struct.pack_into("<" + form, changed, at, number & (1 << 8 * struct.calcsize(form)) - 1)


def read(_: bytes, data: bytes, random_: random.Random) -> bool:
    """In memory, or on disk with a hole of 1 GB behind it."""
    if random_.randrange(4):
        return survived(Held(data))
    with tempfile.TemporaryFile() as file:
        file.write(data)
        file.truncate(SPARSE)
        with closing(OnDisk(os.dup(file.fileno()), SPARSE)) as disk:
            return survived(disk)


def survived(file: Held | OnDisk) -> bool:
    tables = Tables(file, "damaged")
    tables.rules(tables._base)
    try:
        elf = Elf.parse(file, "damaged")
    except Unparsable:
        return False
    offsets = np.array([0, 64, TEXT_OFFSET, TEXT_OFFSET + 0x141, (1 << 64) - 1], dtype=np.uint64)
    assert len(elf.names(offsets)) == 5
    assert len(elf.functions) <= 2 * len(elf) + 1
    return True


def fuzz(times: int, seed: int) -> int:
    return fuzzing.tried(
        times, seed, seeds(), lambda it, random_: fuzzing.damaged(it, random_, crooked, in_place=True), read
    )


if __name__ == "__main__":
    with open("/proc/self/status") as status:
        has = next(int(line.split()[1]) << 10 for line in status if line.startswith("VmData"))
    resource.setrlimit(resource.RLIMIT_DATA, (has + MOST_MEMORY, has + MOST_MEMORY))
    fuzzing.main(fuzz)
